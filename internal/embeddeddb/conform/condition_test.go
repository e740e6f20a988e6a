package conform

import (
	"maps"
	"testing"
)

// lease is a condition like those of the product.
const lease = "attribute_not_exists(holder) OR version = :v AND expires_at < :now"

func TestCondition(t *testing.T) {
	held := item{"holder": "x", "version": 7, "expires_at": 1000}
	text := item{"s": "host-17", "n": 10}
	flags := item{"a": 1, "b": 0, "c": 0}
	one := item{":1": 1}
	cases := []struct {
		item      item
		condition string
		values    item
		holds     bool
	}{
		{nil, lease, item{":v": 0, ":now": 1}, true},
		{held, lease, item{":v": 7, ":now": 1001}, true},
		{held, lease, item{":v": 7, ":now": 1000}, false},
		{held, lease, item{":v": 6, ":now": 5000}, false},
		{item{"holder": "x", "version": 7}, lease, item{":v": 7, ":now": 5000}, false},

		{flags, "a = :1 OR b = :1 AND c = :1", one, true},
		{flags, "b = :1 AND c = :1 OR a = :1", one, true},
		{flags, "(a = :1 OR b = :1) AND c = :1", one, false},
		{flags, "NOT b = :1 AND c = :1", one, false},
		{flags, "NOT (b = :1 AND c = :1)", one, true},
		{flags, "NOT NOT a = :1", one, true},

		{flags, "z = :1", one, false},
		{flags, "z < :1", one, false},
		{flags, "NOT z < :1", one, true},
		{flags, "z <> :1", one, true},
		{nil, "z <> :1", one, true},
		{flags, "y = z", nil, false},
		{text, "s < :1", one, false},
		{text, "s <> :1", one, true},
		{text, "attribute_exists(s) AND attribute_not_exists(z)", nil, true},
		{nil, "attribute_exists(pool_group)", nil, false},

		{text, "n BETWEEN :a AND :b", item{":a": 9, ":b": 10}, true},
		{text, "n BETWEEN :a AND :b", item{":a": 11, ":b": 100}, false},
		{text, "n BETWEEN :a AND :b AND n <> :a", item{":a": 9, ":b": 10}, true},
		{text, "n > :x", item{":x": 9}, true},
		{item{"n": -10}, "n < :x", item{":x": -9}, true},
		{item{"n": -3}, "n < :x", item{":x": -2}, true},
		{item{"n": number("9007199254740993")}, "n = :x", item{":x": number("9007199254740992")}, false},
		{item{"n": number("1790000000000000001")}, "n < :x", item{":x": number("1790000000000000002")}, true},
		{item{"n": number("0.1")}, "n > :x", item{":x": number("-1e-100")}, true},
		{flags, "a > b AND b = c", nil, true},
		{item{"m": item{"x": list{1}}}, "m = :m", item{":m": item{"x": list{number("1.0")}}}, true},
	}
	onEach(t, func(t *testing.T, db *database) {
		for _, c := range cases {
			t.Run(c.condition, func(t *testing.T) {
				u := updateCase{before: c.item, update: "SET touched = :touched", condition: c.condition, values: item{":touched": 1}}
				maps.Copy(u.values, c.values)
				u.after = item{"touched": 1}
				maps.Copy(u.after, c.item)
				if !c.holds {
					u.err, u.after = failed, nil
				}
				db.try(t, u)
			})
		}
	})
}

func TestConditionRefused(t *testing.T) {
	const here = invalid + "Invalid ConditionExpression: "
	cases := []struct {
		condition string
		values    item
		err       string
	}{
		{"a = ", nil, `Syntax error; token: "<EOF>", near: "= "`},
		{"a == :1", nil, `Syntax error; token: "=", near: "== :1"`},
		{"(a = :1", nil, `Syntax error; token: "<EOF>", near: ":1"`},
		{"a = :1 AND", nil, `Syntax error; token: "<EOF>", near: "AND"`},
		{"a = :1 b = :1", nil, `Syntax error; token: "b", near: ":1 b ="`},
		{"a-b = :1", nil, `Syntax error; token: "-", near: "a-b"`},
		{"_a = :1", nil, `Syntax error; token: "_", near: "_a"`},
		{"a = :1 AND AND b = :1", nil, `Syntax error; token: "AND", near: "AND AND b"`},
		{"a < :x", item{":x": true}, "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL"},
		{"((a = :1))", nil, "The expression has redundant parentheses;"},
		{"a BETWEEN :x AND :1", item{":x": 2}, "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}"},
		{"a BETWEEN :x AND :1", item{":x": "s"}, "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {S:s}, upper bound operand: AttributeValue: {N:1}"},
		{"a = a", nil, "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [a]"},
		{"#a = :1", nil, "An expression attribute name used in the document path is not defined; attribute name: #a"},
		{"status = :1", nil, "Attribute name is a reserved keyword; reserved keyword: status"},
		{"a = :2", nil, "An expression attribute value used in expression is not defined; attribute value: :2"},
	}
	onEach(t, func(t *testing.T, db *database) {
		for _, c := range cases {
			t.Run(c.condition, func(t *testing.T) {
				u := updateCase{update: "SET z = :1", condition: c.condition, values: item{":1": 1}, err: here + c.err}
				maps.Copy(u.values, c.values)
				db.try(t, u)
			})
		}
	})
}
