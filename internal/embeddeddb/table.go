package embeddeddb

import "slices"

// A table holds its items by partition, and in a partition in order of the sort key.
type table struct {
	tableDefinition
	partitions map[string][]Item
}

type tableDefinition struct {
	TableName            string
	AttributeDefinitions []struct{ AttributeName, AttributeType string }
	KeySchema            []struct{ AttributeName, KeyType string }
	BillingMode          string
}

// check refuses tables that DynamoDB would refuse, and those that this server cannot be.
func (d tableDefinition) check() {
	if d.BillingMode != "PAY_PER_REQUEST" {
		refuseUnsupported("BillingMode " + d.BillingMode + " (only PAY_PER_REQUEST)")
	}
	for i, k := range d.KeySchema {
		if i > 1 || k.KeyType != [...]string{"HASH", "RANGE"}[i] {
			refuse("Invalid KeySchema: it is a HASH key and at most one RANGE key, in this order")
		}
		if kind := d.keyType(k.AttributeName); kind != "S" && kind != "N" {
			refuse("AttributeDefinitions: the key %s is to be S or N, not %q", k.AttributeName, kind)
		}
	}
	if len(d.TableName) < 3 || len(d.KeySchema) == 0 || len(d.KeySchema) != len(d.AttributeDefinitions) {
		refuse("a table needs a TableName of at least 3 characters, a KeySchema, and an AttributeDefinition for each key and nothing else")
	}
}

// keyType is empty for an attribute that is no key.
func (d tableDefinition) keyType(name string) string {
	for _, a := range d.AttributeDefinitions {
		if a.AttributeName == name {
			return a.AttributeType
		}
	}
	return ""
}

const emptyKey = "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s"

// key takes the key out of an item.
func (d tableDefinition) key(item Item) Item {
	key := Item{}
	for _, k := range d.KeySchema {
		v, want := item[k.AttributeName], d.keyType(k.AttributeName)
		switch {
		case v.absent():
			refuse("One or more parameter values were invalid: Missing the key %s in the item", k.AttributeName)
		case v.kind() != want:
			refuse("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", k.AttributeName, want, v.kind())
		case v.S != nil && *v.S == "":
			refuse(emptyKey, k.AttributeName)
		}
		key[k.AttributeName] = v
	}
	return key
}

// checkKey refuses what is not exactly a key of this table.
func (d tableDefinition) checkKey(key Item) Item {
	for _, k := range d.KeySchema {
		if len(key) != len(d.KeySchema) || key[k.AttributeName].kind() != d.keyType(k.AttributeName) {
			refuse("The provided key element does not match the schema")
		}
	}
	return d.key(key)
}

// partition names the partition of an item.
func (d tableDefinition) partition(item Item) string {
	return item[d.KeySchema[0].AttributeName].String()
}

// bySortKey orders the items of one partition.
func (d tableDefinition) bySortKey(a, b Item) int {
	sort := d.KeySchema[len(d.KeySchema)-1].AttributeName
	order, _ := compare(a[sort], b[sort])
	return order
}

func (t *table) get(key Item) Item {
	rows := t.partitions[t.partition(key)]
	if at, found := slices.BinarySearchFunc(rows, key, t.bySortKey); found {
		return rows[at]
	}
	return nil
}

// put puts an item in the place of the one with its key, if there is one.
func (t *table) put(item Item) {
	partition := t.partition(item)
	rows := t.partitions[partition]
	at, found := slices.BinarySearchFunc(rows, item, t.bySortKey)
	if found {
		rows[at] = item
	} else {
		t.partitions[partition] = slices.Insert(rows, at, item)
	}
}
