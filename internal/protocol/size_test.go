package protocol

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// sizeOf returns the size of a value as DynamoDB counts it (developer guide, "DynamoDB
// item sizes and formats"), rounded up where the guide is approximate.
func sizeOf(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return (len(strings.TrimRight(v.Value, "0"))+1)/2 + 1
	case *types.AttributeValueMemberM:
		size := 3
		for name, value := range v.Value {
			size += 1 + len(name) + sizeOf(value)
		}
		return size
	}
	return 1
}

// A lease's item stays under 1 KB, one write unit, even with every attribute and large
// values: the longest name of a pool, an ECS task's ARN of 91 bytes, 512 bytes of
// metadata, and a high version.
func TestLargestItem(t *testing.T) {
	client, s := newTable(t)
	k := Key{strings.Repeat("p", 64), MaxPoolSize - 1}
	session := "019a9b4e-7c1d-7e4f-9b1e-0123456789ab"
	const version = 9_999_999
	at := time.UnixMilli(1795219299999)
	item := itemKey(k)
	maps.Copy(item, attributes{
		"version": num(version), "reserved_until": millis(at), "widen_try": num(99), "holder": str(session), "expires_at": millis(at.Add(-time.Hour)),
		"renewal": num(9_999_999), "not_before": num(0), "on_demand": boolean(true), "resize": num(9_999),
		"previous": encoded(previousItem{session, version, EndReleased}),
	})
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
		t.Fatal(err)
	}
	metadata := map[string]string{"lib": strings.Repeat("v", 9), "cluster": strings.Repeat("m", 489), "a": "1", "b": "2"}
	text := 0
	for name, value := range metadata {
		text += len(name) + len(value)
	}
	c := Claim{
		Key: k, Session: session, Task: strings.Repeat("a", 91), At: at.Add(time.Hour), TTL: 12345 * time.Millisecond,
		ExpiresAt: at.Add(2*time.Hour + time.Millisecond), ReservedUntil: at.Add(3*time.Hour + time.Millisecond), WidenTry: 99, Metadata: metadata, OnDemand: true,
	}
	if res, err := s.Write(t.Context(), c); err != nil || !res.Applied {
		t.Fatal(res, err)
	}
	if res, err := s.Write(t.Context(), Retire{Key: k, Retired: true, Resize: 99_999_999}); err != nil || !res.Applied {
		t.Fatal(res, err)
	}
	r := Renew{Key: k, Session: session, Version: version + 1, Renewal: 9_999_999, ExpiresAt: c.ExpiresAt, ReservedUntil: c.ReservedUntil, Confirmed: c.ReservedUntil, WidenTry: 99}
	if res, err := s.Write(t.Context(), r); err != nil || !res.Applied {
		t.Fatal(res, err)
	}
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("leases"), Key: itemKey(k)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tags(leaseItem{}) {
		if out.Item[name] == nil {
			t.Errorf("the item lacks %s: it is not the largest", name)
		}
	}
	size := 0
	for name, value := range out.Item {
		size += len(name) + sizeOf(value)
	}
	t.Logf("%d bytes with %d of metadata", size, text)
	if size > 1024 || text != 512 {
		t.Errorf("the largest item has %d bytes with %d of metadata, want at most 1024 with 512", size, text)
	}
}
