package conform

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// scan reads all pages; its result does not depend on which partition comes first.
func (db *database) scan(t *testing.T, in dynamodb.ScanInput) (rows string, scanned int, err error) {
	t.Helper()
	in.TableName = &db.table
	in.ConsistentRead = aws.Bool(true)
	pages := dynamodb.NewScanPaginator(db.client, &in)
	var all []string
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			return "", 0, err
		}
		if int(out.Count) != len(out.Items) || out.ScannedCount < out.Count || in.Limit != nil && out.ScannedCount > *in.Limit {
			t.Errorf("Count %d, ScannedCount %d with %d items", out.Count, out.ScannedCount, len(out.Items))
		}
		scanned += int(out.ScannedCount)
		for _, i := range out.Items {
			all = append(all, fmt.Sprint(i["pool_group"].(*types.AttributeValueMemberS).Value, "/", i["node_id"].(*types.AttributeValueMemberN).Value))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " "), scanned, nil
}

func TestScan(t *testing.T) {
	const everything = "p#0/1 p#0/2 p#1/300 p/-1 q/-1"
	cases := []struct {
		name, filter string
		values       item
		limit        *int32
		want, err    string
	}{
		{name: "all", want: everything},
		{name: "filtered", filter: "node_id = :pool", values: item{":pool": -1}, want: "p/-1 q/-1"},
		{name: "by another attribute", filter: "a > :a AND attribute_exists(node_id)", values: item{":a": 1}, want: "p#0/2"},
		{name: "in pages of 1", limit: aws.Int32(1), want: everything},
		{name: "in pages of 2", limit: aws.Int32(2), want: everything},
		{name: "filtered, in pages of 2", filter: "node_id = :pool", values: item{":pool": -1}, limit: aws.Int32(2), want: "p/-1 q/-1"},
		{name: "syntax", filter: "node_id", err: `Invalid FilterExpression: Syntax error; token: "<EOF>", near: "node_id"`},
	}
	onEach(t, func(t *testing.T, db *database) {
		db.put(t, item{"pool_group": "p", "node_id": -1})
		db.put(t, item{"pool_group": "q", "node_id": -1})
		db.put(t, key(1), item{"a": 1})
		db.put(t, key(2), item{"a": 2})
		db.put(t, item{"pool_group": "p#1", "node_id": 300})
		_, err := db.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &db.table, Limit: aws.Int32(0)})
		db.wantError(t, err, invalid+"1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				in := dynamodb.ScanInput{ExpressionAttributeValues: attributes(t, c.values), Limit: c.limit}
				if c.filter != "" {
					in.FilterExpression = &c.filter
				}
				got, scanned, err := db.scan(t, in)
				if c.err != "" {
					db.wantError(t, err, invalid+c.err)
				} else if err != nil || got != c.want || scanned != 5 {
					t.Errorf("got %q, %d scanned, %v; want %q", got, scanned, err, c.want)
				}
			})
		}
	})
}
