package embeddeddb

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"
)

type table struct {
	madeTable
	rows []Item // sorted by key
}

type tableDefinition struct {
	TableName            *string
	AttributeDefinitions []struct{ AttributeName, AttributeType string }
	KeySchema            []struct{ AttributeName, KeyType string }
	BillingMode          string
}

type madeTable struct {
	tableDefinition
	Created int64  // milliseconds
	ID      string // unique: a later table of the same name has another ID
}

func (d *tableDefinition) know() {
	if d.BillingMode != "PAY_PER_REQUEST" {
		refuseUnsupported("BillingMode " + d.BillingMode + " (only PAY_PER_REQUEST)")
	}
	for _, a := range d.AttributeDefinitions {
		if a.AttributeType == "B" {
			refuseUnsupported("AttributeType B")
		}
	}
}

// check refuses definitions that DynamoDB would refuse, though not always in its words.
func (d *tableDefinition) check() {
	d.know()
	if d.TableName == nil {
		refuse("The parameter 'TableName' is required but was not present in the request")
	}
	wantTable(d.TableName, 3)
	for i, k := range d.KeySchema {
		if i > 1 || k.KeyType != [...]string{"HASH", "RANGE"}[i] || len(k.AttributeName) > 255 || k.AttributeName == "" {
			refuse("Invalid KeySchema: it is a HASH key and at most one RANGE key, in this order, with names of up to 255 bytes")
		}
		if kind := d.keyType(k.AttributeName); kind != "S" && kind != "N" {
			refuse("AttributeDefinitions: the key %s must be S or N, not %q", k.AttributeName, kind)
		}
	}
	if n := len(d.KeySchema); n == 0 || n != len(d.AttributeDefinitions) || d.KeySchema[0].AttributeName == d.KeySchema[n-1].AttributeName && n > 1 {
		refuse("a table needs a KeySchema, and an AttributeDefinition for each key and nothing else")
	}
}

func (d *tableDefinition) keyType(name string) (kind string) {
	for _, a := range d.AttributeDefinitions {
		if a.AttributeName == name {
			kind = a.AttributeType
		}
	}
	return kind
}

// checkPart refuses values that the partition key (part 0) or the sort key (part 1) may not have.
func (d *tableDefinition) checkPart(part int, v Value) {
	switch size := v.size(); {
	case v.S == nil:
	case size == 0:
		refuse("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", d.KeySchema[part].AttributeName)
	case part == 0 && size > 2048:
		refuse("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")
	case part == 1 && size > 1024:
		refuse("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	}
}

func (d *tableDefinition) key(item Item) Item {
	key := Item{}
	for part, k := range d.KeySchema {
		v, want := item[k.AttributeName], d.keyType(k.AttributeName)
		switch {
		case v.absent():
			refuse("One or more parameter values were invalid: Missing the key %s in the item", k.AttributeName)
		case v.kind() != want:
			refuse("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", k.AttributeName, want, v.kind())
		}
		d.checkPart(part, v)
		key[k.AttributeName] = v
	}
	return key
}

func (d *tableDefinition) checkKey(key Item) Item {
	for _, k := range d.KeySchema {
		if len(key) != len(d.KeySchema) || key[k.AttributeName].kind() != d.keyType(k.AttributeName) {
			refuse("The provided key element does not match the schema")
		}
	}
	return d.key(key)
}

// order compares two keys by partition key, and then by sort key. A part that one of them
// lacks is treated as equal, so a partition key alone equals all keys in the partition.
func (d *tableDefinition) order(a, b Item) (order int) {
	for _, k := range d.KeySchema {
		if order == 0 {
			order, _ = compare(a[k.AttributeName], b[k.AttributeName])
		}
	}
	return order
}

func (t *table) get(key Item) Item {
	if at, found := slices.BinarySearchFunc(t.rows, key, t.order); found {
		return t.rows[at]
	}
	return nil
}

func (t *table) put(item Item) {
	if at, found := slices.BinarySearchFunc(t.rows, item, t.order); found {
		t.rows[at] = item
	} else {
		t.rows = slices.Insert(t.rows, at, item)
	}
}

type tableInput struct{ TableName *string }

// table finds a table. If the table does not exist, the error of a call on tables names it,
// by detail; the error of a call on items does not.
func (s *Server) table(name *string, detail string) *table {
	t := s.tables[named(*name)]
	if t == nil {
		panic(failure(http.StatusBadRequest, dynamo+"ResourceNotFoundException", "Requested resource not found%s", detail))
	}
	return t
}

func (s *Server) named(in *tableInput) *table {
	wantTable(in.TableName, 1)
	return s.table(in.TableName, ": Table: "+*in.TableName+" not found")
}

func (t *table) describe(status string) map[string]any {
	size := 0
	for _, row := range t.rows {
		size += row.size()
	}
	created := float64(t.Created) / 1000
	d := map[string]any{
		"TableName": t.TableName, "TableStatus": status, "TableId": t.ID, "ItemCount": len(t.rows), "TableSizeBytes": size,
		"TableArn":              "arn:aws:dynamodb:embedded:000000000000:table/" + *t.TableName,
		"BillingModeSummary":    map[string]any{"BillingMode": t.BillingMode, "LastUpdateToPayPerRequestDateTime": created},
		"ProvisionedThroughput": map[string]int{"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
		"WarmThroughput":        map[string]any{"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000, "Status": "ACTIVE"},
	}
	if d["DeletionProtectionEnabled"] = false; status == "ACTIVE" { // DeleteTable does not return these
		d["CreationDateTime"], d["KeySchema"], d["AttributeDefinitions"] = created, t.KeySchema, t.AttributeDefinitions
	}
	return d
}

func (s *Server) createTable(in *tableDefinition) any {
	in.check()
	name := *in.TableName
	if s.tables[name] != nil {
		panic(failure(http.StatusBadRequest, dynamo+"ResourceInUseException", "Table already exists: %s", name))
	}
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6] = b[6]&0x0f | 0x40
	id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	s.commit(entry{Table: name, Create: &madeTable{*in, time.Now().UnixMilli(), id}})
	return map[string]any{"TableDescription": s.tables[name].describe("ACTIVE")}
}

func (s *Server) deleteTable(in *tableInput) any {
	t := s.named(in)
	s.commit(entry{Table: *t.TableName, Drop: true})
	return map[string]any{"TableDescription": t.describe("DELETING")}
}

func (s *Server) describeTable(in *tableInput) any {
	return map[string]any{"Table": s.named(in).describe("ACTIVE")}
}

func (s *Server) describeTimeToLive(in *tableInput) any {
	s.named(in)
	return map[string]any{"TimeToLiveDescription": map[string]string{"TimeToLiveStatus": "DISABLED"}}
}
