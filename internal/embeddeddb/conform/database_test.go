package conform

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// onEach runs a test against the embedded DynamoDB and, if installed, DynamoDB Local.
func onEach(t *testing.T, test func(t *testing.T, db *database)) {
	for name, client := range map[string]func(testing.TB) *dynamodb.Client{
		"embedded": dynamotest.Embedded,
		"local":    dynamotest.Local,
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t)
			test(t, &database{client: c, table: dynamotest.CreateTable(t, c), local: name == "local"})
		})
	}
}

// A database is a table under test, with the key schema of the product.
type database struct {
	client *dynamodb.Client
	table  string
	local  bool
	keys   int
}

type (
	item   = map[string]any // values that attributevalue encodes as attributes
	list   = []any
	number = attributevalue.Number
)

func key(nodeID int) item { return item{"pool_group": "p#0", "node_id": nodeID} }

func attributes(t *testing.T, i item) map[string]types.AttributeValue {
	t.Helper()
	if i == nil {
		return nil
	}
	a, err := attributevalue.MarshalMap(i)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// fresh returns a key that no case has used.
func (db *database) fresh() item {
	db.keys++
	return key(db.keys)
}

func (db *database) put(t *testing.T, keyed ...item) {
	t.Helper()
	all := item{}
	for _, i := range keyed {
		maps.Copy(all, i)
	}
	_, err := db.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &db.table, Item: attributes(t, all)})
	if err != nil {
		t.Fatalf("put %v: %v", all, err)
	}
}

// get returns an item without its key, as text; "" if there is no item.
func (db *database) get(t *testing.T, key item) string {
	t.Helper()
	out, err := db.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &db.table, Key: attributes(t, key), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return withoutKey(out.Item)
}

func withoutKey(i map[string]types.AttributeValue) string {
	if len(i) == 0 {
		return ""
	}
	rest := maps.Clone(i)
	delete(rest, "pool_group")
	delete(rest, "node_id")
	return text(rest)
}

// wantError checks an error of the form "Code: text"; the text may be a prefix of the message.
func (db *database) wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := errorText(err)
	if _, ok := known(want, got, true); got == want || db.local && ok {
		return
	}
	code, message, _ := strings.Cut(want, ": ")
	gotCode, gotMessage, _ := strings.Cut(got, ": ")
	if code != gotCode || !strings.HasPrefix(gotMessage, message) {
		t.Errorf("got %q\nwant %q; the table of differences does not list this one", got, want)
	}
}

func errorText(err error) string {
	var refused smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.ErrorCode() + ": " + refused.ErrorMessage()
	}
	return err.Error()
}

// text returns an attribute or item in a form that can be compared and read.
func text(v any) string {
	switch v := v.(type) {
	case map[string]types.AttributeValue:
		var parts []string
		for _, name := range sorted(v) {
			parts = append(parts, name+":"+text(v[name]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case *types.AttributeValueMemberS:
		if len(v.Value) > 40 {
			return strconv.Quote(v.Value[:20]) + "…" + strconv.Itoa(len(v.Value))
		}
		return strconv.Quote(v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		return strconv.FormatBool(v.Value)
	case *types.AttributeValueMemberM:
		return text(v.Value)
	case *types.AttributeValueMemberL:
		var parts []string
		for _, e := range v.Value {
			parts = append(parts, text(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return "?"
}
