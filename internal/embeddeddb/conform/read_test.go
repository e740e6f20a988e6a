package conform

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// query reads all pages, and separates them by "|" in its result.
func (db *database) query(t *testing.T, in dynamodb.QueryInput) (ids string, err error) {
	t.Helper()
	in.TableName = &db.table
	in.ConsistentRead = aws.Bool(true)
	pages := dynamodb.NewQueryPaginator(db.client, &in)
	var all []string
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			return "", err
		}
		if int(out.Count) != len(out.Items) || out.ScannedCount != out.Count {
			t.Errorf("Count %d, ScannedCount %d with %d items", out.Count, out.ScannedCount, len(out.Items))
		}
		var page []string
		for _, i := range out.Items {
			page = append(page, i["node_id"].(*types.AttributeValueMemberN).Value)
		}
		all = append(all, strings.Join(page, " "))
	}
	return strings.Join(all, "|"), nil
}

func TestQuery(t *testing.T) {
	only := item{":p": "p#0"}
	cases := []struct {
		name, keys string
		values     item
		limit      *int32
		after      item
		want, err  string
	}{
		{name: "all in numeric order", keys: "pool_group = :p", values: only, want: "-10 -3 1 2 9 10 100"},
		{name: "in parentheses", keys: "(pool_group = :p)", values: only, want: "-10 -3 1 2 9 10 100"},
		{name: "the value first", keys: ":p = pool_group", values: only, want: "-10 -3 1 2 9 10 100"},
		{name: "another partition", keys: "pool_group = :p", values: item{":p": "p"}, want: ""},
		{name: "limit pages", keys: "pool_group = :p", values: only, limit: aws.Int32(3), want: "-10 -3 1|2 9 10|100"},
		{name: "limit that just fits", keys: "pool_group = :p", values: only, limit: aws.Int32(7), want: "-10 -3 1 2 9 10 100|"},
		{name: "after one that exists", keys: "pool_group = :p", values: only, after: key(9), want: "10 100"},
		{name: "after one that does not", keys: "pool_group = :p", values: only, after: key(3), want: "9 10 100"},

		{name: "after one elsewhere", keys: "pool_group = :p", values: only, after: item{"pool_group": "p#1", "node_id": 1}, err: "The provided starting key is outside query boundaries based on provided conditions"},
		{name: "no partition", keys: "node_id = :a", values: item{":a": 1}, err: "Query condition missed key schema element: pool_group"},
		{name: "no attribute", keys: ":p = :p", values: only, err: "Invalid condition in KeyConditionExpression: No key attribute specified"},
		{name: "two attributes", keys: "pool_group = node_id", err: "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
		{name: "wrong type", keys: "pool_group = :p", values: item{":p": 1}, err: "One or more parameter values were invalid: Condition parameter type does not match schema type"},
		{name: "empty", keys: "pool_group = :p", values: item{":p": ""}, err: "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pool_group"},
		{name: "syntax", keys: "pool_group", values: only, err: `Invalid KeyConditionExpression: Syntax error; token: "<EOF>", near: "pool_group"`},
	}
	onEach(t, func(t *testing.T, db *database) {
		for _, id := range []int{10, 2, -3, 100, 1, -10, 9} {
			db.put(t, key(id))
		}
		db.put(t, item{"pool_group": "p#1", "node_id": 300})
		_, err := db.client.Query(t.Context(), &dynamodb.QueryInput{TableName: &db.table, KeyConditionExpression: aws.String("pool_group = :p"), ExpressionAttributeValues: attributes(t, only), Limit: aws.Int32(0)})
		db.wantError(t, err, invalid+"1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				got, err := db.query(t, dynamodb.QueryInput{KeyConditionExpression: &c.keys, ExpressionAttributeValues: attributes(t, c.values), Limit: c.limit, ExclusiveStartKey: attributes(t, c.after)})
				if c.err != "" {
					db.wantError(t, err, invalid+c.err)
				} else if err != nil || got != c.want {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
			})
		}
	})
}
