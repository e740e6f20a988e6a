package protocol_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

type attributes = map[string]types.AttributeValue

func n(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

// heldItem returns the item of node ID 0 as a holder leaves it.
func heldItem() attributes {
	return attributes{
		"pool_group": s("orders#0"), "node_id": n("0"), "holder": s("someone"), "task": s("a task"), "version": n("4"), "renewal": n("2"),
		"lease_ms": n("15000"), "expires_at": n("1700000015000"), "not_before": n("1700000000000"), "reserved_until": n("1700000016000"),
	}
}

func put(t *testing.T, client *dynamodb.Client, table string, item attributes) {
	t.Helper()
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// get reads the item of node ID 0.
func get(t *testing.T, client *dynamodb.Client, table string) attributes {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &table, Key: attributes{"pool_group": s("orders#0"), "node_id": n("0")}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// Whatever is wrong with an item, a read reports it, its neighbours can still be used, and
// no write turns it into a fresh item: the attributes on which uniqueness and order depend
// (version, reserved_until, expires_at) must exist before a claim.
func TestCorruptItems(t *testing.T) {
	type damage struct {
		harm   func(attributes)
		usable bool // a claim overwrites the damaged attribute
	}
	for name, c := range map[string]damage{
		"no version":                  {func(i attributes) { delete(i, "version") }, false},
		"version is a number as text": {func(i attributes) { i["version"] = s("4") }, false},
		"version is negative":         {func(i attributes) { i["version"] = n("-4") }, false},
		"no reserved_until":           {func(i attributes) { delete(i, "reserved_until") }, false},
		"reserved_until is text":      {func(i attributes) { i["reserved_until"] = s("soon") }, false},
		"reserved_until is huge":      {func(i attributes) { i["reserved_until"] = n("1e30") }, false},
		"reserved_until below 0":      {func(i attributes) { i["reserved_until"] = n("-1") }, false},
		"no expires_at":               {func(i attributes) { delete(i, "expires_at") }, false},
		"expires_at is a map":         {func(i attributes) { i["expires_at"] = &types.AttributeValueMemberM{Value: attributes{}} }, false},
		"expires_at is text":          {func(i attributes) { i["expires_at"] = s("1700000015000") }, false},
		"retired is a number":         {func(i attributes) { i["retired"] = n("1") }, false},
		"widen_try is text":           {func(i attributes) { i["widen_try"] = s("0") }, false},
		"holder is a number":          {func(i attributes) { i["holder"] = n("7") }, true},
		"holder is empty":             {func(i attributes) { i["holder"] = s("") }, true},
		"no not_before":               {func(i attributes) { delete(i, "not_before") }, true},
		"lease_ms is negative":        {func(i attributes) { i["lease_ms"] = n("-1") }, true},
		"metadata is a list":          {func(i attributes) { i["metadata"] = &types.AttributeValueMemberL{} }, true},
		"renewal is text":             {func(i attributes) { i["renewal"] = s("2") }, true},
		"expiry without a holder":     {func(i attributes) { delete(i, "holder") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
				store := protocol.NewDynamoDB(client, table)
				if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
					t.Fatal(err)
				}
				item := heldItem()
				c.harm(item)
				put(t, client, table, item)
				item = get(t, client, table)
				var corrupt *protocol.CorruptError
				if _, err := store.Get(t.Context(), "orders", 0); !errors.As(err, &corrupt) || corrupt.NodeID != 0 {
					t.Errorf("Get: %v", err)
				}
				if g, err := store.Group(t.Context(), "orders", 0); err != nil || len(g.Leases) != 1 || len(g.Corrupt) != 1 {
					t.Errorf("Group: %+v, %v", g, err)
				}
				now := time.Now()
				for _, w := range []protocol.Write{
					protocol.Seed{Key: protocol.Key{Pool: "orders"}, Floor: now},
					protocol.Claim{Key: protocol.Key{Pool: "orders"}, Session: "me", At: now, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute)},
				} {
					if _, claim := w.(protocol.Claim); claim && c.usable {
						continue
					}
					if res, err := store.Write(t.Context(), w); !errors.As(err, &corrupt) {
						t.Errorf("%T: %+v, %v", w, res, err)
					}
					if now := get(t, client, table); !reflect.DeepEqual(now, item) {
						t.Fatalf("%T changed the item: %v, was %v", w, now, item)
					}
				}
				if c.usable {
					return
				}
				a, err := lease.Start(t.Context(), fixture.Config(store))
				if err != nil {
					t.Fatal(err)
				}
				if a.NodeID() != 1 {
					t.Errorf("took %d", a.NodeID())
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Agents that have not seen a widening try leave the node IDs with its mark alone: a claim
// or a renewal carries the newest try that its agent has seen.
func TestWidenTryIsRespected(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
		store := protocol.NewDynamoDB(client, table)
		item := heldItem()
		item["widen_try"] = n("1")
		put(t, client, table, item)
		k := protocol.Key{Pool: "orders"}
		for _, known := range []int64{0, 1} {
			now := time.Now()
			r := protocol.Renew{Key: k, Session: "someone", Version: 4, Renewal: 10 + known, ExpiresAt: now, ReservedUntil: now, Confirmed: time.UnixMilli(1700000016000), WidenTry: known}
			if res, err := store.Write(t.Context(), r); err != nil || res.Applied != (known == 1) {
				t.Errorf("renewal that knows %d: %+v, %v", known, res, err)
			}
		}
		for _, known := range []int64{0, 1} {
			now := time.Now().Add(time.Hour)
			c := protocol.Claim{Key: k, Session: "next", At: now, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute), WidenTry: known}
			if res, err := store.Write(t.Context(), c); err != nil || res.Applied != (known == 1) {
				t.Errorf("claim that knows %d: %+v, %v", known, res, err)
			}
		}
	})
}

func TestUnknownItemFormat(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
		put(t, client, table, attributes{"pool_group": s("orders"), "node_id": n("-1"), "item_format": n("99"), "pool_size": n("4"), "open_groups": n("1"), "revision": n("1"), "floor": n("0")})
		store := protocol.NewDynamoDB(client, table)
		if _, err := lease.Start(t.Context(), fixture.Config(store)); !errors.Is(err, protocol.ErrItemFormat) {
			t.Errorf("got %v, want ErrItemFormat", err)
		}
		// A newer program has changed the format while this program was using the pool.
		for _, w := range []protocol.PoolWrite{
			protocol.ResizePool{Pool: "orders", Revision: 1, To: 8, At: time.Now()},
			protocol.OpenGroups{Pool: "orders", From: 1, To: 2},
		} {
			_, _ = store.WritePool(t.Context(), w) // may return an error for the unreadable item
			out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: attributes{"pool_group": s("orders"), "node_id": n("-1")}})
			if err != nil || !reflect.DeepEqual(out.Item["pool_size"], n("4")) || !reflect.DeepEqual(out.Item["open_groups"], n("1")) {
				t.Errorf("%T was done: %+v, %v", w, out.Item, err)
			}
		}
	})
}

// reads is a client that counts reads of single items.
type reads struct {
	*dynamodb.Client
	calls atomic.Int64
}

func (r *reads) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	r.calls.Add(1)
	return r.Client.GetItem(ctx, in, o...)
}

// If the answer to a refused write has the item, the store does not read the item.
func TestRefusalNeedsNoRead(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
		put(t, client, table, heldItem())
		d := &reads{Client: client}
		res, err := protocol.NewDynamoDB(d, table).Write(t.Context(), protocol.Renew{Key: protocol.Key{Pool: "orders"}, Session: "other", ExpiresAt: time.Now(), ReservedUntil: time.Now()})
		if err != nil || res.Applied || res.Lease == nil || res.Lease.Holder != "someone" || res.Lease.Version != 4 {
			t.Errorf("%+v, %v", res, err)
		}
		if d.calls.Load() != 0 {
			t.Errorf("%d reads", d.calls.Load())
		}
	})
}
