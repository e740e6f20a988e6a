package embeddeddb

import "slices"

type getInput struct {
	TableName      string
	Key            Item
	ConsistentRead bool // all reads are
}

type getOutput struct {
	Item Item `json:",omitempty"`
}

func (s *Server) getItem(in *getInput) any {
	t := s.table(in.TableName)
	return getOutput{t.get(t.checkKey(in.Key))}
}

type queryInput struct {
	request
	KeyConditionExpression *string
	ExclusiveStartKey      Item
	Limit                  *int
	ConsistentRead         bool
}

type queryOutput struct {
	Items            []Item
	Count            int
	ScannedCount     int
	LastEvaluatedKey Item `json:",omitempty"`
}

// query gives a page of a partition: Limit items after the start key, in order of the sort key.
func (s *Server) query(in *queryInput) any {
	switch {
	case in.KeyConditionExpression == nil:
		refuse("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	case in.Limit != nil && *in.Limit < 1:
		refuse("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *in.Limit)
	}
	in.check()
	where := parse("KeyConditionExpression", in.KeyConditionExpression, &in.request, (*parser).keyCondition)
	in.checkUsed()
	t := s.table(in.TableName)
	hash := t.KeySchema[0].AttributeName
	switch v := where[hash]; {
	case v.absent():
		refuse("Query condition missed key schema element: %s", hash)
	case v.kind() != t.keyType(hash):
		refuse("One or more parameter values were invalid: Condition parameter type does not match schema type")
	case v.S != nil && *v.S == "":
		refuse(emptyKey, hash)
	}
	rows := t.partitions[t.partition(where)]
	if in.ExclusiveStartKey != nil {
		start := t.checkKey(in.ExclusiveStartKey)
		if t.partition(start) != t.partition(where) {
			refuse("The provided starting key is outside query boundaries based on provided conditions")
		}
		at, found := slices.BinarySearchFunc(rows, start, t.bySortKey)
		if found {
			at++
		}
		rows = rows[at:]
	}
	var last Item
	if in.Limit != nil && *in.Limit <= len(rows) {
		rows = rows[:*in.Limit]
		last = t.key(rows[*in.Limit-1])
	}
	return queryOutput{append([]Item{}, rows...), len(rows), len(rows), last}
}

// keyCondition reads "attribute = :value". There is no other.
func (p *parser) keyCondition() Item {
	name := p.attribute()
	p.expect("=")
	value := p.operand().value
	if value.absent() || p.peek().text != "" {
		refuseUnsupported("a KeyConditionExpression that is not of the form: attribute = :value")
	}
	return Item{name: value}
}
