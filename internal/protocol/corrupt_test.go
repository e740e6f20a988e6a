package protocol_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A claim, a mark and a raise are refused if the item's version, reservation or mark is
// out of range, and do not change the item. A condition cannot require a whole number, so
// a claim of an item with a fraction succeeds. Its sender notices that in the answer,
// before anybody uses the lease, and undoes the claim without losing the reservation.
func TestOutOfRangeIsNotHealed(t *testing.T) {
	for name, c := range map[string]struct {
		attribute, value string
		written          bool // a condition cannot refuse it
	}{
		"version 1.5":          {"version", "1.5", true},
		"version 2^53":         {"version", "9007199254740992", false},
		"version of 38 digits": {"version", "99999999999999999999999999999999999999", false},
		"version -1":           {"version", "-1", false},
		"reserved_until 1.5":   {"reserved_until", "1.5", true},
		"reserved_until -1":    {"reserved_until", "-1", false},
		"reserved_until -0.5":  {"reserved_until", "-0.5", false},
		"reserved_until 1E+30": {"reserved_until", "1E+30", false},
		"widen_try -1":         {"widen_try", "-1", false},
		"widen_try 0":          {"widen_try", "0", false},
		"widen_try 1E+30":      {"widen_try", "1E+30", false},
	} {
		t.Run(name, func(t *testing.T) {
			dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
				store := protocol.NewDynamoDB(client, table)
				if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
					t.Fatal(err)
				}
				item := attributes{"pool_group": s("orders#0"), "node_id": n("0"), "version": n("4"), "reserved_until": n("1700000000000")}
				item[c.attribute] = n(c.value)
				put(t, client, table, item)
				item = get(t, client, table)
				k, now := protocol.Key{Pool: "orders"}, time.Now()
				if !c.written {
					for _, w := range []protocol.Write{
						protocol.Claim{Key: k, Session: "me", At: now, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute)},
						protocol.Mark{Key: k, Try: 1, From: now.Add(time.Minute)},
					} {
						if res, err := store.Write(t.Context(), w); err == nil && res.Applied {
							t.Errorf("%T: got %+v, want it refused", w, res.Lease)
						}
						if got := get(t, client, table); !reflect.DeepEqual(got, item) {
							t.Fatalf("%T left %v, want %v", w, got, item)
						}
					}
				}
				cfg := fixture.Config(store)
				var corrupt *lease.CorruptError
				reported := false
				cfg.OnEvent = func(e lease.Event) { reported = reported || errors.As(e.Err, &corrupt) }
				a, err := lease.Start(t.Context(), cfg)
				if err == nil {
					t.Fatalf("got node %d, want no lease of a corrupt item", a.NodeID())
				}
				if !reported && !errors.As(err, &corrupt) {
					t.Errorf("got %v and no event of a corrupt item", err)
				}
				got := get(t, client, table)
				if !reflect.DeepEqual(got[c.attribute], item[c.attribute]) && c.attribute != "version" || got["holder"] != nil {
					t.Errorf("the start left %v, want %s %s and no holder", got, c.attribute, c.value)
				}
				if _, err := store.Get(t.Context(), "orders", 0); !errors.As(err, &corrupt) {
					t.Errorf("after the start: got %v, want a *CorruptError", err)
				}
			})
		})
	}
}

// A narrow pool that has no node IDs, according to its own item, is corrupt. An agent
// that starts returns that error at once, and reads and claims nothing.
func TestNarrowPoolWithoutNodeIDs(t *testing.T) {
	for name, numbers := range map[string]string{"0": "0", "missing": "", "all below exclude_below": "2"} {
		t.Run(name, func(t *testing.T) {
			dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
				item := attributes{
					"pool_group": s("orders"), "node_id": n("-1"), "item_format": n("2"), "revision": n("1"), "floor": n("0"), "pool_size": n("4"), "open_groups": n("1"),
					"exclude_below": n("2"), "widen_try": n("0"), "widen_from": n("0"), "widen_bits": n("9"), "widen_state": s("done"),
					"eras": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{Value: attributes{"from": n("0"), "node_bits": n("9")}}}},
				}
				if numbers != "" {
					item["exist_below"] = n(numbers)
				}
				put(t, client, table, item)
				var corrupt *lease.CorruptError
				if p, err := protocol.NewDynamoDB(client, table).PoolItem(t.Context(), "orders"); !errors.As(err, &corrupt) || !protocol.Permanent(err) {
					t.Errorf("got %+v, %v, want a *CorruptError that no retry repairs", p, err)
				}
				if a, err := lease.Start(t.Context(), fixture.Config(protocol.NewDynamoDB(client, table))); !errors.As(err, &corrupt) || corrupt.NodeID != -1 || !strings.Contains(err.Error(), "exist_below") {
					t.Errorf("got %v, %v, want a *CorruptError of the pool's item", a, err)
				}
			})
		})
	}
}

// A verdict and a count that have more keys than this release writes, or other values, are
// replaced once: a second write that has seen the same is refused.
func TestOddMapsAreReplaced(t *testing.T) {
	m := func(kv attributes) types.AttributeValue { return &types.AttributeValueMemberM{Value: kv} }
	yes := &types.AttributeValueMemberBOOL{Value: true}
	for name, odd := range map[string]struct{ verdict, measured types.AttributeValue }{
		"another key": {m(attributes{"region": s("r"), "table": s("t"), "at": n("5"), "by": s("b"), "safe": yes, "note": s("x")}),
			m(attributes{"held": n("1"), "cooling": n("2"), "at": n("5"), "valid_ms": n("6"), "note": s("x")})},
		"a key without a value": {m(attributes{"region": s("r"), "table": s(""), "at": n("5"), "by": s("b"), "safe": yes}), m(attributes{"held": n("1"), "cooling": n("2"), "at": n("5"), "valid_ms": n("0")})},
		"a missing key":         {m(attributes{"region": s("r"), "at": n("5")}), m(attributes{"held": n("1"), "at": n("5")})},
	} {
		t.Run(name, func(t *testing.T) {
			dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
				put(t, client, table, attributes{"pool_group": s("orders"), "node_id": n("-1"), "item_format": n("2"), "revision": n("1"), "floor": n("0"),
					"pool_size": n("4"), "open_groups": n("1"), "exclude_below": n("0"), "verdict": odd.verdict, "measured": odd.measured})
				store := protocol.NewDynamoDB(client, table)
				item, err := store.PoolItem(t.Context(), "orders")
				if err != nil {
					t.Fatal(err)
				}
				at := time.UnixMilli(9)
				for i, w := range []protocol.PoolWrite{
					protocol.Measure{Pool: "orders", Seen: item.Measured, Measured: protocol.Measured{Held: 3, At: at}},
					protocol.Vouch{Pool: "orders", Seen: item.Verdict, Verdict: protocol.Verdict{Region: "r", Table: "t", At: at, By: "b", Safe: true}},
				} {
					for _, want := range []bool{true, false} {
						if res, err := store.WritePool(t.Context(), w); err != nil || res.Applied != want {
							t.Errorf("write %d: got applied %v, %v, want %v", i, res.Applied, err, want)
						}
					}
				}
			})
		})
	}
}

// An item with a fraction in its key is between two node IDs. A reader reports it and reads
// on, so that a raise reaches the node IDs after it, in each group. A seed creates the node ID
// before it.
func TestFractionInTheKey(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
		pool := leasepool.Open(protocol.NewDynamoDB(client, table), "orders")
		for group, node := range map[string]string{"orders#0": "7.5", "orders#1": "260.5"} {
			put(t, client, table, attributes{"pool_group": s(group), "node_id": n(node), "version": n("1"), "reserved_until": n("1700000000000")})
		}
		if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 300}); err != nil {
			t.Fatal(err)
		}
		to := time.Now().Add(time.Minute).Truncate(time.Millisecond)
		c, err := pool.Raise(t.Context(), to)
		if err != nil || c.Raised != 300 || c.Corrupt[7] == "" || c.Corrupt[260] == "" || len(c.Corrupt) != 2 {
			t.Errorf("got %d raised, corrupt %v, %v, want 300, and the items 7.5 and 260.5", c.Raised, c.Corrupt, err)
		}
	})
}
