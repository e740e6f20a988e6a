package leasepool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// seeded seeds the pool "orders" with the node IDs from low to size-1. The node IDs in old
// were seeded an hour ago, so that a test can give them leases in the past.
func seeded(t testing.TB, s protocol.Store, size, low int, old ...int) *leasepool.Pool {
	t.Helper()
	p := leasepool.Open(s, "orders")
	for _, node := range old {
		if _, err := s.Write(t.Context(), protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: node}, Floor: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: size, ExcludeBelow: low}); err != nil {
		t.Fatal(err)
	}
	return p
}

// all returns the leases of a pool by node ID, and the node IDs of corrupt items.
func all(t testing.TB, p *leasepool.Pool) (leases map[int]protocol.Lease, corrupt []int) {
	t.Helper()
	leases = map[int]protocol.Lease{}
	last := -1
	for l, err := range p.Leases(t.Context()) {
		var c *protocol.CorruptError
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

// renew returns the next renewal of the holder of l.
func renew(l protocol.Lease, at time.Time) protocol.Renew {
	return protocol.Renew{
		Key: protocol.Key{Pool: l.Pool, NodeID: l.NodeID}, Session: l.Holder, Version: l.Version, Renewal: l.Renewal + 1,
		ExpiresAt: at.Add(l.TTL), ReservedUntil: at.Add(l.TTL + time.Second), Confirmed: l.ReservedUntil,
	}
}

// through is a store with which a test can inspect or change writes and answers.
type through struct {
	protocol.Store
	before func(w protocol.Write) error
	server func() time.Time
}

func (s through) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if s.before != nil {
		if err := s.before(w); err != nil {
			return protocol.Result{}, err
		}
	}
	return s.Store.Write(ctx, w)
}

func (s through) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Store.PoolItem(ctx, pool)
	if s.server != nil {
		p.ServerTime = s.server()
	}
	return p, err
}

// stopAfter returns a context and a store. At the nth write of kind W, the context ends,
// and the store does not apply that write.
func stopAfter[W protocol.Write](t *testing.T, s protocol.Store, n int64) (context.Context, protocol.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var count atomic.Int64
	return ctx, through{Store: s, before: func(w protocol.Write) error {
		if _, ok := w.(W); ok && count.Add(1) >= n {
			cancel()
			return context.Canceled
		}
		return nil
	}}
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

// Leases stops when its caller stops the iteration. It includes the node IDs above the
// size of a pool that was made smaller.
func TestLeases(t *testing.T) {
	s := leasetest.NewMemory("orders", 600)
	p := leasepool.Open(s, "orders")
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 10}); err != nil {
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
	s.SetOutage(fmt.Errorf("%w: gone", protocol.ErrTable))
	for _, err := range p.Leases(t.Context()) {
		if !errors.Is(err, protocol.ErrTable) {
			t.Errorf("error %v, want ErrTable", err)
		}
	}
}

// A verb that writes uses this machine's clock, so it returns an error if that clock is
// wrong, even before the pool exists. Verbs that only read do not.
func TestPoolClock(t *testing.T) {
	for _, off := range []time.Duration{-10 * time.Second, 10 * time.Second} {
		for _, network := range []*fixture.Network{fixture.NewNetwork(0), fixture.NewNetwork(2)} {
			p := leasepool.Open(through{Store: network, server: func() time.Time { return time.Now().Add(off) }}, "orders")
			before := network.Writes()
			_, seed := p.Seed(t.Context(), leasepool.Spec{Size: 2})
			_, resize := p.Resize(t.Context(), leasepool.Spec{Size: 3})
			_, raise := p.Raise(t.Context(), time.Now())
			_, reap := p.Reap(t.Context())
			for verb, err := range map[string]error{"seed": seed, "resize": resize, "raise": raise, "reap": reap} {
				if !errors.Is(err, protocol.ErrClockSkew) {
					t.Errorf("%s with a clock that is off by %v: %v, want ErrClockSkew", verb, off, err)
				}
			}
			if network.Writes() != before {
				t.Errorf("%d writes", network.Writes()-before)
			}
			if _, err := p.Stats(t.Context()); errors.Is(err, protocol.ErrClockSkew) {
				t.Errorf("stats: %v", err)
			}
		}
	}
}

func TestPoolNames(t *testing.T) {
	p := leasepool.Open(leasetest.NewMemory("", 0), "orders#1")
	_, err := p.Stats(t.Context())
	errorHas(t, err, `"orders#1"`, "A-Z")
	_, err = p.ForceRelease(t.Context(), 1, 1)
	errorHas(t, err, `"orders#1"`)
}

// unanswered is a table whose clock differs from this machine's, and which does not answer the
// reads of the pool's item before a certain time.
type unanswered struct {
	*fixture.Network
	until time.Time
	off   time.Duration
}

func (s *unanswered) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if time.Now().Before(s.until) {
		return protocol.PoolItem{}, context.DeadlineExceeded
	}
	p, err := s.Network.PoolItem(ctx, pool)
	p.ServerTime = time.Now().Add(s.off)
	return p, err
}

// A clock that is a minute ahead is refused, also if the table answered nothing for a minute.
func TestOutageHidesNoLead(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &unanswered{fixture.NewNetwork(8), time.Now().Add(time.Minute), -time.Minute}
		if _, err := leasepool.Open(s, "orders").Resize(t.Context(), leasepool.Spec{Size: 16}); !errors.Is(err, protocol.ErrClockSkew) {
			t.Errorf("got %v, want %v", err, protocol.ErrClockSkew)
		}
		if n := s.Writes(); n > 0 {
			t.Errorf("got %d writes, want none", n)
		}
	})
}
