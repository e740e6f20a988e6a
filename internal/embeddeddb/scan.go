package embeddeddb

import (
	"maps"
	"slices"
)

type scanInput struct {
	request
	FilterExpression  *string
	ExclusiveStartKey Item
	Limit             *int
	ConsistentRead    bool
}

// scan gives a page of the table: Limit items after the start key, and of those the ones that the
// filter lets through. Partitions come in the order of their names; DynamoDB's order is nobody's.
func (s *Server) scan(in *scanInput) any {
	if in.Limit != nil && *in.Limit < 1 {
		refuse("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", *in.Limit)
	}
	in.check()
	holds := condition(func(Item) bool { return true })
	if in.FilterExpression != nil {
		holds = parse("FilterExpression", in.FilterExpression, &in.request, (*parser).or)
	}
	in.checkUsed()
	t := s.table(in.TableName)
	var rows []Item
	for _, partition := range slices.Sorted(maps.Keys(t.partitions)) {
		rows = append(rows, t.partitions[partition]...)
	}
	if in.ExclusiveStartKey != nil {
		start := t.checkKey(in.ExclusiveStartKey)
		rows = slices.DeleteFunc(rows, func(row Item) bool {
			if p, from := t.partition(row), t.partition(start); p != from {
				return p < from
			}
			return t.bySortKey(row, start) <= 0
		})
	}
	var last Item
	if in.Limit != nil && *in.Limit <= len(rows) {
		rows = rows[:*in.Limit]
		last = t.key(rows[*in.Limit-1])
	}
	scanned := len(rows)
	rows = slices.DeleteFunc(append([]Item{}, rows...), func(row Item) bool { return !holds(row) })
	return queryOutput{rows, len(rows), scanned, last}
}
