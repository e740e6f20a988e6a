package discovery

import (
	"context"
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

// A lease that runs out, by an answer from before its renewal, while the leases of
// another group are read, has not ended.
func TestLeaseThatEndsWhileAnotherGroupIsRead(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		leases := &slowGroup{Memory: leasetest.NewMemory("orders", 300)}
		d := directory(t, Config{Store: &entriesBeside{entries.NewMemory(leases.Memory), leases}, Pool: "orders", Logger: silent})
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
				t.Fatalf("node ID %d: %+v, %v", node, res, err)
			}
		}
		entry := func(node int, version int64) record {
			a := at(node)
			return record{NodeID: node, Holder: "s", Version: version, Address: (*entries.Address)(&a)}
		}
		hold(3, 1, time.Second)
		hold(280, 1, 4*time.Second)
		if _, _, err := d.read(t.Context(), []record{entry(3, 1), entry(280, 1)}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(3900 * time.Millisecond)
		hold(280, 1, 10*time.Second)
		hold(3, 2, 10*time.Second) // nobody knows of it yet, so its group is read again
		leases.takes[0] = 200 * time.Millisecond
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
	})
}

// entriesBeside keeps entries with separate leases.
type entriesBeside struct {
	*entries.Memory
	store protocol.Store
}

func (e *entriesBeside) Leases() protocol.Store { return e.store }

// A reader on its own believes no findings that somebody left, and leaves none.
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
		wantPorts(t, service(t, w.directory(t, nil), "orders")) // the cost of sharing
		before := w.store.published
		wantPorts(t, service(t, w.directory(t, func(c *Config) { c.Alone = true }), "orders"), 1)
		if w.store.published != before {
			t.Error("a reader on its own has left its findings")
		}
	})
}
