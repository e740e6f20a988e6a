package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// onEachStore runs a test of the pool's verbs on every store there is. corrupt
// leaves a number with an item that lacks reserved_until; it is nil where a
// store cannot hold such an item.
func onEachStore(t *testing.T, test func(t *testing.T, s lease.Store, corrupt func(node int))) {
	t.Run("memory", func(t *testing.T) { test(t, leasetest.NewMemory("", 0), nil) })
	for name, connect := range map[string]func(testing.TB) *dynamodb.Client{"embedded": dynamotest.Embedded, "local": dynamotest.Local} {
		t.Run(name, func(t *testing.T) {
			client := connect(t)
			table := dynamotest.CreateTable(t, client)
			test(t, lease.NewDynamoDB(client, table), func(node int) {
				_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
					"pool_group": &types.AttributeValueMemberS{Value: fmt.Sprintf("orders#%d", node/lease.GroupSize)},
					"node_id":    &types.AttributeValueMemberN{Value: fmt.Sprint(node)},
					"version":    &types.AttributeValueMemberN{Value: "7"},
				}})
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// seeded is the pool "orders" with numbers from low to size-1. Those of old were
// seeded an hour ago, so that leases of the past can be made with them.
func seeded(t testing.TB, s lease.Store, size, low int, old ...int) *lease.Pool {
	t.Helper()
	p := lease.OpenPool(s, "orders")
	for _, node := range old {
		if _, err := s.Write(t.Context(), lease.Seed{Key: lease.Key{Pool: "orders", NodeID: node}, Floor: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Seed(t.Context(), lease.SeedSpec{Size: size, ReservedLow: low}); err != nil {
		t.Fatal(err)
	}
	return p
}

// all gives the numbers of a pool by number, and which are corrupt.
func all(t testing.TB, p *lease.Pool) (leases map[int]lease.Lease, corrupt []int) {
	t.Helper()
	leases = map[int]lease.Lease{}
	last := -1
	for l, err := range p.Leases(t.Context()) {
		var c *lease.CorruptError
		switch {
		case errors.As(err, &c):
			corrupt = append(corrupt, l.NodeID)
		case err != nil:
			t.Fatal(err)
		case l.NodeID <= last:
			t.Fatalf("node %d follows node %d", l.NodeID, last)
		default:
			leases[l.NodeID], last = l, l.NodeID
		}
	}
	return leases, corrupt
}

// hold makes a session hold a number, with a lease that began at a time.
func hold(t testing.TB, s lease.Store, node int, at time.Time, ttl time.Duration) lease.Lease {
	t.Helper()
	res, err := s.Write(t.Context(), lease.Claim{
		Key: lease.Key{Pool: "orders", NodeID: node}, Session: fmt.Sprintf("session-%d", node), Task: "task", At: at.Add(time.Second),
		ClaimGuard: time.Second, TTL: ttl, ExpiresAt: at.Add(ttl), ReservedUntil: at.Add(ttl + time.Second),
	})
	if err != nil || !res.Applied {
		t.Fatalf("claim of node %d: %+v, %v", node, res, err)
	}
	return *res.Lease
}

// renew is what the holder of l would send next.
func renew(l lease.Lease, at time.Time) lease.Renew {
	return lease.Renew{
		Key: lease.Key{Pool: l.Pool, NodeID: l.NodeID}, Session: l.Holder, Version: l.Version, Renewal: l.Renewal + 1,
		ExpiresAt: at.Add(l.TTL), ReservedUntil: at.Add(l.TTL + time.Second),
	}
}

// through is a store whose writes and answers a test looks at or changes.
type through struct {
	lease.Store
	before func(w lease.Write) error
	server func() time.Time
}

func (s through) Write(ctx context.Context, w lease.Write) (lease.Result, error) {
	if s.before != nil {
		if err := s.before(w); err != nil {
			return lease.Result{}, err
		}
	}
	return s.Store.Write(ctx, w)
}

func (s through) PoolItem(ctx context.Context, pool string) (lease.PoolItem, error) {
	p, err := s.Store.PoolItem(ctx, pool)
	if s.server != nil {
		p.ServerTime = s.server()
	}
	return p, err
}

// stopAfter ends a context at the nth write of a kind, without doing it.
func stopAfter[W lease.Write](t *testing.T, s lease.Store, n int64) (context.Context, lease.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var count atomic.Int64
	return ctx, through{Store: s, before: func(w lease.Write) error {
		if _, ok := w.(W); ok && count.Add(1) >= n {
			cancel()
			return context.Canceled
		}
		return nil
	}}
}

// together calls fn n times at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

func errorHas(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

// Leases end where the reader stops, and go on behind a pool that was made
// smaller.
func TestLeases(t *testing.T) {
	s := leasetest.NewMemory("orders", 600)
	p := lease.OpenPool(s, "orders")
	if _, err := p.Resize(t.Context(), lease.SeedSpec{Size: 10}); err != nil {
		t.Fatal(err)
	}
	if leases, _ := all(t, p); len(leases) != 600 || !leases[599].Retired || leases[9].Retired {
		t.Errorf("%d leases, want all 600 and the highest retired", len(leases))
	}
	for l := range p.Leases(t.Context()) {
		if l.NodeID == 3 {
			break
		}
	}
	s.SetOutage(fmt.Errorf("%w: gone", lease.ErrTable))
	for _, err := range p.Leases(t.Context()) {
		if !errors.Is(err, lease.ErrTable) {
			t.Errorf("error %v, want ErrTable", err)
		}
	}
}

// What writes goes by this machine's clock, so a wrong one is refused, also before
// there is a pool. What reads is not.
func TestPoolClock(t *testing.T) {
	for _, off := range []time.Duration{-10 * time.Second, 10 * time.Second} {
		for _, memory := range []*leasetest.Memory{leasetest.NewMemory("", 0), leasetest.NewMemory("orders", 2)} {
			p := lease.OpenPool(through{Store: memory, server: func() time.Time { return time.Now().Add(off) }}, "orders")
			before := memory.Writes()
			_, seed := p.Seed(t.Context(), lease.SeedSpec{Size: 2})
			_, resize := p.Resize(t.Context(), lease.SeedSpec{Size: 3})
			_, raise := p.Raise(t.Context(), time.Now())
			_, reap := p.Reap(t.Context())
			for verb, err := range map[string]error{"seed": seed, "resize": resize, "raise": raise, "reap": reap} {
				if !errors.Is(err, lease.ErrClockSkew) {
					t.Errorf("%s with a clock that is off by %v: %v, want ErrClockSkew", verb, off, err)
				}
			}
			if memory.Writes() != before {
				t.Errorf("%d writes", memory.Writes()-before)
			}
			if _, err := p.Stats(t.Context()); errors.Is(err, lease.ErrClockSkew) {
				t.Errorf("stats: %v", err)
			}
		}
	}
}

func TestPoolNames(t *testing.T) {
	p := lease.OpenPool(leasetest.NewMemory("", 0), "orders#1")
	_, err := p.Stats(t.Context())
	errorHas(t, err, `"orders#1"`, "A-Z")
	_, err = p.ForceRelease(t.Context(), 1, 1)
	errorHas(t, err, `"orders#1"`)
}
