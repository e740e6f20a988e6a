package discovery

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// slowGroup takes a while to read a group of leases.
type slowGroup struct {
	*leasetest.Memory
	takes [2]time.Duration
}

func (s *slowGroup) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	g, err := s.Memory.Group(ctx, pool, n)
	<-time.After(s.takes[n]) // virtual
	return g, err
}

// While the leases of one group are read, a lease of another group may expire according
// to an answer from before its renewal. Such a lease has not ended.
func TestLeaseThatEndsWhileAnotherGroupIsRead(t *testing.T) {
	leaseThatEnds(t, 200*time.Millisecond, 0)
}

// A lease may also expire, according to an answer from before its renewal, while the answer
// is stored for other readers.
func TestLeaseThatEndsWhileTheAnswerIsShared(t *testing.T) {
	leaseThatEnds(t, 50*time.Millisecond, 100*time.Millisecond)
}

// An instance that has died is not listed after the end of its lease, even if storing the
// answer for other readers takes long.
func TestLeaseOfTheDeadEndsWhileTheAnswerIsShared(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(300)
		a := w.agent(t, nil)
		store := &slowToShare{Store: w.store, takes: 1900 * time.Millisecond}
		d := directory(t, Config{Store: store, Pool: "orders", Logger: silent})
		register(t, d, a, Service{"orders", at(1)})
		w.kill(a)
		l, err := w.leases.Get(t.Context(), "orders", a.NodeID())
		if err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Until(l.ExpiresAt) - time.Second)
		wantPorts(t, service(t, d, "orders")) // it ends while the answer is stored
		if store.shared != 1 {
			t.Errorf("the answer was stored for others %d times, want once", store.shared)
		}
	})
}

// leaseThatEnds resolves a service with two instances, in two groups. According to the
// reader's old answer about one group, the lease in that group ends in 100 ms. The reader
// reads the other group, which takes as long as reading, and stores its answer for others,
// which takes as long as sharing.
func leaseThatEnds(t *testing.T, reading, sharing time.Duration) {
	t.Helper()
	fixture.Virtual(t, func(t *testing.T) {
		leases := &slowGroup{Memory: leasetest.NewMemory("orders", 300)}
		store := &slowToShare{Store: &entriesBeside{entries.NewMemory(leases.Memory), leases}, takes: sharing}
		d := directory(t, Config{Store: store, Pool: "orders", Logger: silent})
		hold := func(node int, version int64, until time.Duration) {
			t.Helper()
			now := time.Now()
			k := protocol.Key{Pool: "orders", NodeID: node}
			var w protocol.Write = protocol.Claim{Key: k, Session: "s", At: now, TTL: until, ExpiresAt: now.Add(until), ReservedUntil: now.Add(until)}
			if l, err := leases.Get(t.Context(), "orders", node); err != nil {
				t.Fatal(err)
			} else if l.Version == version {
				w = protocol.Renew{Key: k, Session: "s", Version: version, Renewal: l.Renewal + 1, Confirmed: l.ReservedUntil, ExpiresAt: now.Add(until), ReservedUntil: now.Add(until)}
			}
			if res, err := leases.Write(t.Context(), w); err != nil || !res.Applied {
				t.Fatalf("node ID %d: got %+v, %v, want the write applied", node, res, err)
			}
		}
		entry := func(node int, version int64) record {
			a := at(node)
			return record{NodeID: node, Holder: "s", Version: version, Address: (*entries.Address)(&a)}
		}
		hold(3, 1, time.Second)
		hold(280, 1, 4*time.Second)
		if _, _, err := d.read(t.Context(), []record{entry(3, 1), entry(280, 1)}, doubt{}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(3900 * time.Millisecond)
		hold(280, 1, 10*time.Second)
		hold(3, 2, 10*time.Second) // no reader has seen this lease yet, so its group is read again
		leases.takes[0] = reading
		p, err := servicePlace("orders")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []record{entry(3, 2), entry(280, 1)} {
			if err := put(t.Context(), d.cfg.Store, p.in("orders"), r); err != nil {
				t.Fatal(err)
			}
		}
		wantPorts(t, service(t, d, "orders"), 3, 280)
		if store.shared != 1 {
			t.Errorf("the answer was stored for others %d times, want once", store.shared)
		}
	})
}

// slowToShare takes a while to store an answer for other readers.
type slowToShare struct {
	Store
	takes  time.Duration
	shared int
}

func (s *slowToShare) Write(ctx context.Context, partition string, r record) (record, bool, error) {
	if r.NodeID == sharedNode {
		s.shared++
		<-time.After(s.takes) // virtual
	}
	return s.Store.Write(ctx, partition, r)
}

// late is a store that answers eventually consistent reads with an old page.
type late struct {
	*leasetest.Memory
	page   protocol.Group
	strong int
}

func (s *late) EventualGroup(context.Context, string, int) (protocol.Group, error) {
	return s.page, nil
}

func (s *late) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.strong++
	return s.Memory.Group(ctx, pool, n)
}

// A lease may be live even if an old page shows it as ended, or does not contain it yet.
// If a strong read has also shown that a lease has ended, later answers need no further
// strong read.
func TestLeaseOfALatePage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		leases := &late{Memory: w.leases}
		page := func() {
			t.Helper()
			var err error
			if leases.page, err = w.leases.Group(t.Context(), "orders", 0); err != nil {
				t.Fatal(err)
			}
		}
		d := directory(t, Config{Store: &entriesBeside{w.store.Memory, leases}, Pool: "orders", Logger: silent})
		register(t, d, a, Service{"orders", at(1)})
		l := service(t, d, "orders")
		wantPorts(t, l, 1) // the page is from before the claim, so it is empty
		if leases.strong != 1 {
			t.Errorf("%d strong reads for a lease that the page does not have, want 1", leases.strong)
		}
		page()
		fixture.Wait(20 * time.Second) // the lease was renewed since, but the old page shows it as ended
		leases.strong = 0
		wantPorts(t, l, 1)
		if leases.strong != 1 {
			t.Errorf("%d strong reads for a lease that has ended by the page, want 1", leases.strong)
		}
		w.kill(a)
		fixture.Wait(20 * time.Second)
		page()
		leases.strong = 0
		for range 5 {
			wantPorts(t, l)
			fixture.Wait(6 * time.Second)
		}
		if leases.strong != 1 {
			t.Errorf("%d strong reads for a lease whose holder has died, want 1", leases.strong)
		}
	})
}

// A lease may be live even if an old page shows that it ends before the answer is read
// again, or if a page that was read for another place shows that it has ended.
func TestLeaseThatSoonEndsByALatePage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a, b := w.agent(t, nil), w.agent(t, nil)
		leases := &late{Memory: w.leases}
		d := directory(t, Config{Store: &entriesBeside{w.store.Memory, leases}, Pool: "orders", Alone: true, Logger: silent})
		register(t, d, a, Service{"orders", at(1)})
		register(t, d, b, Service{"stock", at(2)})
		page, err := w.leases.Group(t.Context(), "orders", 0)
		if err != nil {
			t.Fatal(err)
		}
		leases.page = page
		orders, stock := service(t, d, "orders"), service(t, d, "stock")
		fixture.Wait(time.Until(page.Leases[a.NodeID()].ExpiresAt) - 300*time.Millisecond)
		wantPorts(t, orders, 1)
		fixture.Wait(400 * time.Millisecond)
		wantPorts(t, orders, 1)

		later := page
		later.Leases = slices.Clone(page.Leases)
		later.Leases[a.NodeID()].ExpiresAt = time.Now().Add(time.Hour)
		leases.page, leases.strong = later, 0
		fixture.Wait(time.Minute)
		wantPorts(t, orders, 1)
		wantPorts(t, stock, 2)
		if leases.strong != 1 {
			t.Errorf("%d strong reads, want 1: for the lease that has ended by the page", leases.strong)
		}
	})
}

// entriesBeside keeps entries in memory, with leases in another store.
type entriesBeside struct {
	*entries.Memory
	store protocol.Store
}

func (e *entriesBeside) Leases() protocol.Store { return e.store }

// A reader with Alone does not use the findings that others have stored, and stores none.
func TestAlone(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		register(t, w.directory(t, nil), a, Service{"orders", at(1)})
		p, err := servicePlace("orders")
		if err != nil {
			t.Fatal(err)
		}
		l, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		forged := record{NodeID: sharedNode, Version: 1, ReadAt: time.Now().UnixMilli(), Leases: map[string]finding{strconv.Itoa(l.NodeID): {Version: l.Version}}}
		if err := put(t.Context(), w.store, p.in("orders"), forged); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, service(t, w.directory(t, nil), "orders")) // a reader that shares findings misses the instance
		before := w.store.published
		wantPorts(t, service(t, w.directory(t, func(c *Config) { c.Alone = true }), "orders"), 1)
		if w.store.published != before {
			t.Error("a reader with Alone stored its findings")
		}
	})
}
