package conform

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestPut(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		key := db.fresh()
		put := func(holder, condition string) (*dynamodb.PutItemOutput, error) {
			in := &dynamodb.PutItemInput{TableName: &db.table, Item: attributes(t, join(key, item{"holder": holder})), ReturnValues: "ALL_OLD", ReturnValuesOnConditionCheckFailure: "ALL_OLD"}
			if condition != "" {
				in.ConditionExpression = &condition
			}
			return db.client.PutItem(t.Context(), in)
		}
		if out, err := put("a", "attribute_not_exists(node_id)"); err != nil || len(out.Attributes) != 0 {
			t.Fatalf("first put: got %v, %v, want 0", out, err)
		}
		var refused *types.ConditionalCheckFailedException
		if _, err := put("b", "attribute_not_exists(node_id)"); !errors.As(err, &refused) || withoutKey(refused.Item) != `{holder:"a"}` {
			t.Errorf("put over another: %v with %v", err, refused)
		}
		if out, err := put("c", ""); err != nil || withoutKey(out.Attributes) != `{holder:"a"}` {
			t.Errorf("put without a condition: %v, %v", out, err)
		}
		_, err := db.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &db.table, Item: attributes(t, key), ReturnValues: "ALL_NEW"})
		db.wantError(t, err, invalid+"ReturnValues can only be ALL_OLD or NONE")
	})
}

func join(all ...item) item {
	sum := item{}
	for _, i := range all {
		maps.Copy(sum, i)
	}
	return sum
}

func TestNumbers(t *testing.T) {
	const overflow = invalid + "Number overflow. Attempting to store a number with magnitude larger than supported range"
	const underflow = invalid + "Number underflow. Attempting to store a number with magnitude smaller than supported range"
	const precision = invalid + "Attempting to store more than 38 significant digits in a Number"
	const nonsense = invalid + "The parameter cannot be converted to a numeric value"
	cases := []struct{ given, stored, err string }{
		{given: "1.0", stored: "1"},
		{given: "007", stored: "7"},
		{given: "1e2", stored: "100"},
		{given: "-0", stored: "0"},
		{given: "0e500", err: overflow},
		{given: "0.0e126", stored: "0"},
		{given: "0e-131", err: underflow},
		{given: "+.5", stored: "0.5"},
		{given: "1.", stored: "1"},
		{given: "-12.3400", stored: "-12.34"},
		{given: "1E-3", stored: "0.001"},
		{given: "12345678901234567890123456789012345678000", stored: "12345678901234567890123456789012345678000"},
		{given: "1e125", stored: "1" + strings.Repeat("0", 125)},
		{given: "1e-130", stored: "0." + strings.Repeat("0", 129) + "1"},
		{given: "1e126", err: overflow},
		{given: "-1e126", err: overflow},
		{given: "1e-131", err: underflow},
		{given: strings.Repeat("9", 39), err: precision},
		{given: "12345678901234567890123456789012345678.9", err: precision},
		{given: "", err: nonsense},
		{given: "abc", err: nonsense},
		{given: " 1", err: nonsense},
		{given: "1_0", err: nonsense},
		{given: "0x1", err: nonsense},
		{given: "NaN", err: nonsense},
		{given: "1e", err: nonsense},
		{given: "+-1", err: nonsense},
		{given: ".", err: nonsense},
	}
	onEach(t, func(t *testing.T, db *database) {
		for _, c := range cases {
			t.Run(c.given, func(t *testing.T) {
				key := db.fresh()
				i := attributes(t, key)
				i["n"] = &types.AttributeValueMemberN{Value: c.given}
				_, err := db.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &db.table, Item: i})
				db.wantError(t, err, c.err)
				if want := "{n:" + c.stored + "}"; c.err == "" && db.get(t, key) != want {
					t.Errorf("stored %s, want %s", db.get(t, key), want)
				}
			})
		}
	})
}

func TestKeysRefused(t *testing.T) {
	const notKey = invalid + "The provided key element does not match the schema"
	cases := []struct {
		name            string
		key             item
		asKey, asObject string // errors when the case is used as a key, and as an item
	}{
		{"empty", item{"pool_group": "", "node_id": 1}, invalid + "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pool_group", ""},
		{"wrong type", item{"pool_group": "a", "node_id": "1"}, notKey, invalid + "One or more parameter values were invalid: Type mismatch for key node_id expected: N actual: S"},
		{"half", item{"pool_group": "a"}, notKey, invalid + "One or more parameter values were invalid: Missing the key node_id in the item"},
		{"more", item{"pool_group": "a", "node_id": 1, "x": 1}, notKey, "none"},
		{"none", item{"x": 1}, notKey, invalid + "One or more parameter values were invalid: Missing the key pool_group in the item"},
	}
	onEach(t, func(t *testing.T, db *database) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				k := attributes(t, c.key)
				_, err := db.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &db.table, Key: k})
				db.wantError(t, err, c.asKey)
				_, err = db.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &db.table, Key: k})
				db.wantError(t, err, c.asKey)
				_, err = db.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &db.table, Item: k})
				switch c.asObject {
				case "":
					db.wantError(t, err, c.asKey)
				case "none":
					db.wantError(t, err, "")
				default:
					db.wantError(t, err, c.asObject)
				}
			})
		}
	})
}
