package conform

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	failed  = "ConditionalCheckFailedException: The conditional request failed"
	invalid = "ValidationException: "
	missing = invalid + "The provided expression refers to an attribute that does not exist in the item"
	badType = invalid + "An operand in the update expression has an incorrect data type"
)

// An updateCase is one UpdateItem on its own key.
type updateCase struct {
	name              string
	before            item // nil: there is no item
	update, condition string
	values            item
	returns           types.ReturnValue

	after    item // nil: the same as before
	returned item
	err      string
}

func (db *database) update(t *testing.T, key item, c updateCase) (*dynamodb.UpdateItemOutput, error) {
	t.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName:                           &db.table,
		Key:                                 attributes(t, key),
		ExpressionAttributeValues:           attributes(t, c.values),
		ReturnValues:                        c.returns,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if c.update != "" {
		in.UpdateExpression = &c.update
	}
	if c.condition != "" {
		in.ConditionExpression = &c.condition
	}
	return db.client.UpdateItem(t.Context(), in)
}

func (db *database) try(t *testing.T, c updateCase) {
	t.Helper()
	key := db.fresh()
	if c.before != nil {
		db.put(t, key, c.before)
	}
	before := db.get(t, key)
	out, err := db.update(t, key, c)
	db.wantError(t, err, c.err)
	after := before
	if c.after != nil {
		after = text(attributes(t, c.after))
	}
	if got := db.get(t, key); got != after {
		t.Errorf("then the item is %s, want %s", got, after)
	}
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) && withoutKey(refused.Item) != before {
		t.Errorf("the error carries %s, want the old item: %s", withoutKey(refused.Item), before)
	}
	if c.returned != nil && err == nil {
		if got, want := withoutKey(out.Attributes), text(attributes(t, c.returned)); got != want {
			t.Errorf("returned %s, want %s", got, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	listed := item{"l": list{1, 2, 3}}
	cases := []updateCase{
		{name: "creates a missing item", update: "SET a = :a", values: item{":a": 1}, after: item{"a": 1}},
		{name: "without an expression creates too", after: item{}},
		{name: "SET and REMOVE", before: item{"b": 1, "c": 2}, update: "SET a = :a, c = :c REMOVE b, d", values: item{":a": 1, ":c": 9}, after: item{"a": 1, "c": 9}},
		{name: "keywords in any case", before: item{"b": 1}, update: "set a = :a remove b", values: item{":a": 1}, after: item{"a": 1}},
		{name: "sees the old item", before: item{"a": 10, "b": 3}, update: "SET a = b, b = a, c = a + b", after: item{"a": 3, "b": 10, "c": 13}},
		{name: "REMOVE before SET", before: item{"b": 1}, update: "REMOVE b SET a = :a", values: item{":a": 1}, after: item{"a": 1}},
		{name: "if_not_exists absent", update: "SET n = if_not_exists(n, :0) + :1", values: item{":0": 0, ":1": 1}, after: item{"n": 1}},
		{name: "if_not_exists present", before: item{"n": 5}, update: "SET n = if_not_exists(n, :0) + :1", values: item{":0": 0, ":1": 1}, after: item{"n": 6}},
		{name: "if_not_exists nested", before: item{"b": 5}, update: "SET n = if_not_exists(a, if_not_exists(b, :0))", values: item{":0": 0}, after: item{"n": 5, "b": 5}},
		{name: "if_not_exists resolves its fallback", before: item{"a": 5}, update: "SET n = if_not_exists(a, b)", err: missing},
		{name: "list_append", before: listed, update: "SET l = list_append(l, :l)", values: item{":l": list{item{"from": 4}}}, after: item{"l": list{1, 2, 3, item{"from": 4}}}},
		{name: "list_append of nothing to nothing", update: "SET l = list_append(:l, :l)", values: item{":l": list{}}, after: item{"l": list{}}},
		{name: "REMOVE of a missing attribute", before: listed, update: "REMOVE q"},
		{name: "list_append to a missing list", update: "SET l = list_append(if_not_exists(l, :0), :l)", values: item{":0": list{}, ":l": list{1}}, after: item{"l": list{1}}},
		{name: "numbers are exact", before: item{"a": number("9007199254740993"), "b": number("12345678901234567890123456789012345678")}, update: "SET a = a + :1, b = b + :1", values: item{":1": 1},
			after: item{"a": number("9007199254740994"), "b": number("12345678901234567890123456789012345679")}},
		{name: "all types", update: "SET a = :a, b = :b, c = :c", values: item{":a": true, ":b": item{"x": ""}, ":c": list{"", 1}}, after: item{"a": true, "b": item{"x": ""}, "c": list{"", 1}}},

		{name: "a missing attribute has no value", update: "SET n = n + :1", values: item{":1": 1}, err: missing},
		{name: "nor has a copy", before: item{"x": 1}, update: "SET n = m", err: missing},
		{name: "a string does not add", before: item{"s": "x"}, update: "SET n = s + :1", values: item{":1": 1}, err: badType},
		{name: "a number does not append", before: item{"n": 1}, update: "SET n = list_append(n, :l)", values: item{":l": list{}}, err: badType},
		{name: "sum of too many digits", before: item{"n": number("1e100")}, update: "SET n = n + :1", values: item{":1": 1}, err: invalid + "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{name: "sum too large", before: item{"n": number("9e125")}, update: "SET n = n + n", err: invalid + "Number overflow. Attempting to store a number with magnitude larger than supported range"},

		{name: "NONE", before: item{"a": 1}, update: "SET a = :2", values: item{":2": 2}, after: item{"a": 2}, returns: "NONE"},
		{name: "ALL_OLD", before: item{"a": 1, "b": 1}, update: "SET a = :2", values: item{":2": 2}, after: item{"a": 2, "b": 1}, returns: "ALL_OLD", returned: item{"a": 1, "b": 1}},
		{name: "ALL_NEW", before: item{"a": 1, "b": 1}, update: "SET a = :2", values: item{":2": 2}, after: item{"a": 2, "b": 1}, returns: "ALL_NEW", returned: item{"a": 2, "b": 1}},

		{name: "overlapping paths", update: "SET a = :1, a = :1", values: item{":1": 1}, err: invalid + "Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]"},
		{name: "a section twice", update: "SET a = :1 SET b = :1", values: item{":1": 1}, err: invalid + `Invalid UpdateExpression: The "SET" section can only be used once in an update expression;`},
		{name: "a function of a value", update: "SET a = :1", condition: "attribute_exists(:1)", values: item{":1": 1}, err: invalid + "Invalid ConditionExpression: Operator or function requires a document path; operator or function: attribute_exists"},
		{name: "the key", update: "SET node_id = :1", values: item{":1": 1}, err: invalid + "One or more parameter values were invalid: Cannot update attribute node_id. This attribute is part of the key"},
		{name: "not a section", update: "SETT a = :1", values: item{":1": 1}, err: invalid + `Invalid UpdateExpression: Syntax error; token: "SETT", near: "SETT a"`},
		{name: "no end", update: "SET a = ", values: item{":1": 1}, err: invalid + `Invalid UpdateExpression: Syntax error; token: "<EOF>", near: "= "`},
		{name: "wrong literal", update: "SET a = list_append(b, :1)", values: item{":1": 1}, err: invalid + "Invalid UpdateExpression: Incorrect operand type for operator or function; operator or function: list_append, operand type: N"},
		{name: "unused value", update: "SET a = :1", values: item{":1": 1, ":2": 2}, err: invalid + "Value provided in ExpressionAttributeValues unused in expressions: keys: {:2}"},
		{name: "undefined value", update: "SET a = :2", values: item{":1": 1}, err: invalid + "Invalid UpdateExpression: An expression attribute value used in expression is not defined; attribute value: :2"},
		{name: "undefined name", update: "SET #a = :1", values: item{":1": 1}, err: invalid + "Invalid UpdateExpression: An expression attribute name used in the document path is not defined; attribute name: #a"},
		{name: "wrong ReturnValues", update: "SET a = :1", values: item{":1": 1}, returns: "SOME", err: invalid + "1 validation error detected: Value 'SOME' at 'returnValues' failed to satisfy constraint: Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"},
	}
	onEach(t, func(t *testing.T, db *database) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { db.try(t, c) })
		}
		// DynamoDB Local creates an item here. According to Alternator's suite, the service does not.
		if key := db.fresh(); !db.local {
			out, err := db.update(t, key, updateCase{update: "REMOVE a", returns: "ALL_NEW"})
			if got := db.get(t, key); err != nil || got != "" || out.Attributes != nil {
				t.Errorf("REMOVE where no item is: the item is then %s, %v, %v", got, out, err)
			}
		}
	})
}
