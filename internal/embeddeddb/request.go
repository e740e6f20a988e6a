package embeddeddb

import (
	"maps"
	"slices"
	"strings"
)

// A request is what the calls with expressions have in common.
type request struct {
	TableName                 string
	ExpressionAttributeValues Item
	used                      map[string]bool // values, by the expressions
}

// check refuses values that are malformed.
func (r *request) check() {
	if values := r.ExpressionAttributeValues; values != nil && len(values) == 0 {
		refuse("ExpressionAttributeValues must not be empty")
	}
	r.ExpressionAttributeValues.check()
	r.used = map[string]bool{}
}

// checkUsed refuses values that no expression used: mostly a mistyped name.
func (r *request) checkUsed() {
	given := slices.Sorted(maps.Keys(r.ExpressionAttributeValues))
	if unused := slices.DeleteFunc(given, func(alias string) bool { return r.used[alias] }); len(unused) > 0 {
		refuse("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
}
