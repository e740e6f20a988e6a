package leasepool_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// forger writes to the table in ways that no write of this module does.
type forger struct {
	t      *testing.T
	client *dynamodb.Client
	table  string
}

func (f forger) set(group, node, expression, value string) {
	f.t.Helper()
	var v types.AttributeValue
	if value != "" {
		v = &types.AttributeValueMemberN{Value: value}
	}
	f.setValue(group, node, expression, v)
}

func (f forger) setValue(group, node, expression string, v types.AttributeValue) {
	f.t.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName: &f.table, UpdateExpression: &expression,
		Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: group}, "node_id": &types.AttributeValueMemberN{Value: node}},
	}
	if v != nil {
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":v": v}
	}
	if _, err := f.client.UpdateItem(f.t.Context(), in); err != nil {
		f.t.Fatal(err)
	}
}

// fill adds an attribute to an item that is as large as it can be.
func (f forger) fill(group, node string) {
	f.t.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName: &f.table, UpdateExpression: aws.String("SET padding = :v"),
		Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: group}, "node_id": &types.AttributeValueMemberN{Value: node}},
	}
	for size := 400 << 10; size > 0; size-- {
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: strings.Repeat("x", size)}}
		if _, err := f.client.UpdateItem(f.t.Context(), in); err == nil {
			return
		}
	}
	f.t.Fatal("no attribute fits into the item")
}

// audited seeds a pool in which node ID 0 is held, 1 was held and released, and the
// others were never held. Then it runs the reaper, which scans the pool.
func audited(t *testing.T, narrow bool) (forger, *leasepool.Pool, lease.Store) {
	t.Helper()
	client := dynamotest.Embedded(t)
	f := forger{t, client, dynamotest.CreateTable(t, client)}
	store := lease.NewDynamoDB(client, f.table)
	pool := leasepool.Open(store, "orders")
	if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 4, Narrow: narrow}); err != nil {
		t.Fatal(err)
	}
	write := func(w protocol.Write) {
		t.Helper()
		if res, err := store.Write(t.Context(), w); err != nil || !res.Applied {
			t.Fatal(w, res, err)
		}
	}
	for node := range 2 {
		write(claim(node, time.Now()))
	}
	write(protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 1}, Session: "session-1", Version: 1, ReservedUntil: time.Now().Add(time.Second)})
	reapQuietly(t, pool)
	return f, pool, store
}

func claim(node int, at time.Time) protocol.Claim {
	return protocol.Claim{
		Key: protocol.Key{Pool: "orders", NodeID: node}, Session: fmt.Sprintf("session-%d", node), Task: "task", TTL: time.Minute,
		At: at, ClaimGuard: 2 * time.Second, ExpiresAt: at.Add(time.Minute), ReservedUntil: at.Add(time.Minute),
	}
}

// reapQuietly runs a scan, which must find nothing forged.
func reapQuietly(t *testing.T, p *leasepool.Pool) {
	t.Helper()
	r, err := p.Reap(t.Context())
	if err != nil || len(r.Forged) > 0 {
		t.Fatalf("an honest pool: %v, forged %v", err, r.Forged)
	}
}

// The reaper, the measurement and Due notice changes that no write of this module makes.
func TestForged(t *testing.T) {
	for _, test := range []struct {
		name   string
		narrow bool
		forge  func(f forger)
		node   int
		want   string
	}{
		{"reserved_until of a held one", false, func(f forger) { f.set("orders#0", "0", "SET reserved_until = :v", "0") }, 0, "reserved_until went back"},
		{"reserved_until of a free one", false, func(f forger) { f.set("orders#0", "1", "SET reserved_until = :v", "1000") }, 1, "reserved_until went back"},
		{"reserved_until of a fresh one", false, func(f forger) { f.set("orders#0", "3", "SET reserved_until = :v", "1000") }, 3, "reserved_until went back"},
		{"version", false, func(f forger) { f.set("orders#0", "1", "SET version = :v", "0") }, 1, "version went back from 1 to 0"},
		{"an unknown widening", false, func(f forger) { f.set("orders#0", "2", "SET widen_try = :v", "9") }, 2, "marked with try 9"},
		{"an unknown widening of a narrow pool", true, func(f forger) { f.set("orders#0", "2", "SET widen_try = :v", "9") }, 2, "marked with try 9"},
		{"a span that begins too early", false, func(f forger) {
			f.set("orders#0", "1", "SET not_before = :v, version = version + :v, expires_at = reserved_until + :v", "1")
			f.set("orders#0", "1", "SET renewal = :v", "1")
			_, err := f.client.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
				TableName: &f.table, UpdateExpression: aws.String("SET holder = :v"), ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "me"}},
				Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders#0"}, "node_id": &types.AttributeValueMemberN{Value: "1"}},
			})
			if err != nil {
				f.t.Fatal(err)
			}
		}, 1, "its span begins at"},
		{"the floor", false, func(f forger) { f.set("orders", "-1", "SET floor = :v", "0") }, -1, "floor went back"},
		{"the revision", false, func(f forger) { f.set("orders", "-1", "SET revision = :v", "1") }, -1, "revision went back"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, pool, _ := audited(t, test.narrow)
			if test.node < 0 {
				if _, err := pool.Raise(t.Context(), time.Now().Add(time.Second)); err != nil { // makes the floor later and the revision higher
					t.Fatal(err)
				}
				reapQuietly(t, pool)
			}
			test.forge(f)
			for range 2 { // the second scan finds it as well
				r, err := pool.Reap(t.Context())
				if err != nil || len(r.Corrupt) > 0 || len(r.Forged) != 1 || !strings.Contains(r.Forged[test.node], test.want) {
					t.Fatalf("the reaper found %v, %v, %v, want node %d: %s", r.Forged, r.Corrupt, err, test.node, test.want)
				}
			}
			if s, err := pool.Stats(t.Context()); err != nil || !strings.Contains(s.Forged[test.node], test.want) {
				t.Errorf("the measurement found %v, %v", s.Forged, err)
			}
			if r, err := leasepool.Open(lease.NewDynamoDB(f.client, f.table), "orders").Due(t.Context()); err != nil || !strings.Contains(r.Forged[test.node], test.want) {
				t.Errorf("who asks what is due is told %v, %v", r.Forged, err)
			}
			if !strings.Contains(test.want, "reserved_until") {
				return
			}
			if _, err := pool.Raise(t.Context(), time.Now().Add(2*time.Minute)); err != nil {
				t.Fatal(err)
			}
			reapQuietly(t, pool)
		})
	}
}

// A node ID was deleted, and a foreign item was put in its place, under a key between two
// node IDs. The scan notices that the node ID is gone.
func TestForeignItemHidesNoDeletion(t *testing.T) {
	f, _, store := audited(t, false)
	f.set("orders#0", "1.5", "SET version = :v", "1")
	pool := leasepool.Open(gone{store.(*protocol.DynamoDB), 1}, "orders")
	if r, err := pool.Reap(t.Context()); err != nil || !strings.Contains(r.Forged[1], "it was deleted") {
		t.Errorf("got forged %v, %v, want that node 1 was deleted", r.Forged, err)
	}
}

// delayed is a store whose first answer about the pool's item arrives after late has run.
type delayed struct {
	*protocol.DynamoDB
	once atomic.Bool
	late func()
}

func (s *delayed) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	item, err := s.DynamoDB.PoolItem(ctx, pool)
	if !s.once.Swap(true) {
		s.late()
	}
	return item, err
}

// The pool's item is not forged if a resize and a scan of the reaper have overtaken the
// answer that contains it.
func TestOvertakenItemIsNotForged(t *testing.T) {
	_, pool, store := audited(t, false)
	slow := &delayed{DynamoDB: store.(*protocol.DynamoDB), late: func() {
		if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 5}); err != nil {
			t.Error(err)
		}
		reapQuietly(t, pool)
	}}
	if s, err := leasepool.Open(slow, "orders").Stats(t.Context()); err != nil || len(s.Forged) > 0 {
		t.Errorf("got forged %v, %v, want none", s.Forged, err)
	}
}

// gone is a store without one of its items.
type gone struct {
	*protocol.DynamoDB
	node int
}

func (g gone) Get(ctx context.Context, pool string, node int) (*protocol.Lease, error) {
	if node == g.node {
		return nil, nil
	}
	return g.DynamoDB.Get(ctx, pool, node)
}

func (g gone) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	all, err := g.Group(ctx, pool, n)
	return all, err
}

func (g gone) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	all, err := g.DynamoDB.Group(ctx, pool, n)
	for i, l := range all.Leases {
		if l.NodeID == g.node {
			all.Leases = append(all.Leases[:i:i], all.Leases[i+1:]...)
			break
		}
	}
	return all, err
}

// No writes by holders, claimants, the reaper and operators, in any order, look forged.
func TestHonestWritesAreNotForged(t *testing.T) {
	f, pool, store := audited(t, true)
	now := time.Now()
	at := func(d time.Duration) time.Time { return now.Add(d) }
	key := protocol.Key{Pool: "orders", NodeID: 2}
	renewed := protocol.Renew{Key: key, Session: "session-2", Version: 1, Renewal: 1, ExpiresAt: at(2 * time.Minute), ReservedUntil: at(2 * time.Minute), Confirmed: at(time.Minute)}
	steps := []func() (bool, error){
		done(store, claim(2, now)), done(store, renewed),
		done(store, protocol.Release{Key: key, Session: "session-2", Version: 1, Renewal: 1, ReservedUntil: at(time.Millisecond)}),
		done(store, claim(2, at(time.Minute))), done(store, protocol.Abandon{Key: key, Session: "session-2"}),
		done(store, claim(2, at(2*time.Minute))), done(store, protocol.ForceRelease{Key: key, Version: 3, Holder: "session-2"}),
		done(store, claim(2, at(time.Hour))), done(store, protocol.Reap{Key: key, Holder: "session-2", Version: 4}),
		done(store, protocol.Raise{Key: key, To: at(2 * time.Hour)}),
		done(store, protocol.Retire{Key: key, Retired: true, Resize: 1}),
		done(store, claim(3, now)),
		done(store, protocol.FreeCopy{Key: protocol.Key{Pool: "orders", NodeID: 3}, Session: "session-3", Version: 1, ReservedUntil: at(time.Minute)}),
		func() (bool, error) {
			res, err := store.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2})
			return res.Applied, err
		},
	}
	for i, step := range steps {
		applied, err := step()
		if err != nil || !applied {
			t.Fatalf("step %d: %v, %v", i, applied, err)
		}
		if i%2 == 0 { // not after each write, so that changes add up between two scans
			reapQuietly(t, pool)
		}
	}
	reapQuietly(t, pool)
	if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 600, Narrow: true}); err != nil {
		t.Fatal(err)
	}
	reapQuietly(t, pool)
	// A garbled watermark is ignored.
	for _, text := range []string{"", "x", "1.2", "zz.1.1 ", "0.-1.5 ", strings.Repeat("0.1.1 ", 4000)} {
		_, err := f.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &f.table, UpdateExpression: aws.String("SET watermarks = :v"), ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: text}},
			Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders#reaper"}, "node_id": &types.AttributeValueMemberN{Value: "1"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		reapQuietly(t, pool)
	}
	if r, err := leasepool.Open(gone{store.(*protocol.DynamoDB), 1}, "orders").Due(t.Context()); err != nil || !maps.Equal(r.Forged, leasepool.Corrupt{1: "it was deleted"}) {
		t.Errorf("a deleted item: %v, %v", r.Forged, err)
	}
}

func done(store lease.Store, w protocol.Write) func() (bool, error) {
	return func() (bool, error) {
		res, err := store.Write(context.Background(), w)
		return res.Applied, err
	}
}

// In the pool's own item, the history of widths may only grow.
func TestPoolWatermark(t *testing.T) {
	began := time.UnixMilli(0)
	item := protocol.PoolItem{Revision: 3, Floor: time.UnixMilli(50), Eras: snowflake.Eras{{From: began, NodeBits: 9}}, Widening: protocol.Widening{Try: 2}}
	w := protocol.PoolWatermarkOf(item)
	for _, test := range []struct {
		change func(*protocol.PoolItem)
		want   string
	}{
		{func(*protocol.PoolItem) {}, ""},
		{func(p *protocol.PoolItem) {
			p.Revision, p.Widening.Try, p.Eras = 4, 3, append(p.Eras[:1:1], snowflake.Era{From: time.UnixMilli(9), NodeBits: 10})
		}, ""},
		{func(p *protocol.PoolItem) { p.Eras = snowflake.Eras{{From: began, NodeBits: 10}} }, "eras were changed"},
		{func(p *protocol.PoolItem) { p.Eras = nil }, "eras were changed"},
		{func(p *protocol.PoolItem) { p.Widening.Try = 1 }, "widen_try went back from 2 to 1"},
		{func(p *protocol.PoolItem) { p.Revision = 2 }, "revision went back from 3 to 2"},
		{func(p *protocol.PoolItem) { p.Floor = time.UnixMilli(49) }, "floor went back"},
	} {
		p := item
		test.change(&p)
		if got := w.Broken(p); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// A group's partition has more foreign items than a reader keeps. A verb ends with the remedy:
// every request is answered, so that a verb that reads the group again would never end.
func TestPartitionOfForeignItems(t *testing.T) {
	f, pool, _ := audited(t, false)
	for n := range 2 * protocol.GroupSize {
		f.set("orders#0", fmt.Sprintf("0.%03d1", n), "SET version = :v", "0")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := pool.Stats(ctx)
	if err == nil || !strings.Contains(err.Error(), "delete what is foreign in it") || ctx.Err() != nil {
		t.Errorf("got %v, want the remedy at once", err)
	}
}

// An item of nearly 400 KB, which is valid for readers, has no room for what a verb writes. The
// verb reports it as corrupt and goes on.
func TestItemWithoutRoomStopsNoVerb(t *testing.T) {
	f, pool, _ := audited(t, false)
	before, err := pool.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	size := before.Pool.Size
	f.fill("orders#0", fmt.Sprint(size-1))
	c, err := pool.Resize(t.Context(), leasepool.Spec{Size: size - 2})
	if err != nil || c.Retired != 1 || c.Corrupt[size-1] == "" {
		t.Errorf("got %+v, %v, want one node ID that is retired and a corrupt one, %d", c, err, size-1)
	}
}
