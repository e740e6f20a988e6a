package discovery

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func TestRegisterAndResolve(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a, b := w.agent(t, nil), w.agent(t, nil)
		d, other := w.directory(t, nil), w.directory(t, nil)
		here := Address{Host: "10.0.0.7", Port: 8080, Zone: "a", Weight: 3, Labels: map[string]string{"build": "7"}}
		register(t, d, a, Service{"orders", here}, Service{"stock", at(1)}, Endpoint{"shard", "7", at(2)}, Endpoint{"shard", "", at(3)})
		register(t, other, b, Service{"orders", at(9)})

		wantPorts(t, service(t, other, "orders"), 9, 8080)
		wantPorts(t, service(t, other, "stock"), 1)
		wantPorts(t, service(t, other, "nobody"))
		for key, port := range map[string]int{"7": 2, "": 3} {
			l, err := other.Endpoint("shard", key)
			if err != nil {
				t.Fatal(err)
			}
			wantPorts(t, l, port)
		}
		held, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		list, err := service(t, d, "orders").Resolve(t.Context())
		want := Instance{held.NodeID, held.Holder, held.Version, here}
		if err != nil || !slices.ContainsFunc(list, func(i Instance) bool { return reflect.DeepEqual(i, want) }) {
			t.Errorf("%+v, %v, want %+v in it", list, err, want)
		}

		// An address can be replaced, and withdrawn; the next lookup sees both.
		register(t, d, a, Service{"orders", at(8081)})
		wantPorts(t, service(t, other, "orders"), 9, 8081)
		if err := d.Deregister(bounded(t), a, Service{Name: "orders"}, Endpoint{Name: "shard", Key: "7"}); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, service(t, other, "orders"), 9)
		wantPorts(t, service(t, other, "stock"), 1)
		if err := d.Leave(bounded(t), a); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, service(t, other, "stock"))
		if left := w.left(); len(left) != 2 { // b's entry and its list
			t.Errorf("entries left: got %v, want b's entry and its list", left)
		}
	})
}

// A process that crashes is no longer returned once its lease has expired, however long
// answers are cached. A process that releases its lease is gone soon.
func TestGoneWithTheLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a, b := w.agent(t, nil), w.agent(t, nil)
		d := w.directory(t, func(c *Config) { c.MaxAge = time.Hour })
		register(t, d, a, Service{"orders", at(1)})
		register(t, d, b, Service{"orders", at(2)})
		l := service(t, d, "orders")
		wantPorts(t, l, 1, 2)

		w.kill(a)
		ends := w.lease(t, a.NodeID()).ExpiresAt
		fixture.Wait(time.Until(ends) - time.Millisecond)
		wantPorts(t, l, 1, 2)
		fixture.Wait(2 * time.Millisecond)
		wantPorts(t, l, 2)
		for range 20 { // b's renewals are also seen, though no answer is older than MaxAge
			fixture.Wait(5 * time.Second)
			wantPorts(t, l, 2)
		}
		if w.store.queries > 25 { // one per longestDoubt, while a's lease is not freed
			t.Errorf("got %d queries for the entries, want at most 25", w.store.queries)
		}

		fresh := w.directory(t, nil)
		m := service(t, fresh, "orders")
		wantPorts(t, m, 2)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(2 * defaultMaxAge)
		wantPorts(t, m)
	})
}

// Entries of an earlier holder of a node ID are not valid for its next holder.
func TestNextHolderIsAnother(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(1)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)}, Service{"stock", at(1)})
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		b := w.agent(t, nil)
		wantPorts(t, service(t, d, "orders"))
		register(t, d, b, Service{"orders", at(2)})
		wantPorts(t, service(t, d, "orders"), 2)
		wantPorts(t, service(t, d, "stock"))
		want := []string{"orders#registered 0", "orders#svc#orders 0"}
		if left := w.left(); !slices.Equal(left, want) { // b has cleared the entries that a left behind
			t.Errorf("entries left: got %v, want those of b", left)
		}
	})
}

// During an outage that is longer than the lease, Resolve returns its last answer.
// Afterwards, the same entries are valid again, without a write.
func TestResumed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)})
		l := service(t, d, "orders")
		wantPorts(t, l, 1)
		writes := w.store.sent()
		away := errors.New("away")
		w.setOutage(away)
		fixture.Wait(time.Minute)
		if list, err := l.Resolve(t.Context()); !errors.Is(err, away) || !slices.Equal(portsOf(list), []int{1}) {
			t.Errorf("got %v, %v, want the last list and the store's error", list, err)
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Fatalf("got %v, want ErrSuspended", err)
		}
		w.setOutage(nil)
		<-a.Renewed()
		fixture.Wait(2 * time.Second)
		wantPorts(t, l, 1)
		if got := w.store.sent(); got != writes {
			t.Errorf("got %d writes, want none", got-writes)
		}
	})
}

// When an agent claims another node ID, its entries are written again with the new node
// ID.
func TestReacquired(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, func(c *lease.Config) { c.OnLost = lease.Reacquire })
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)}, Endpoint{"shard", "7", at(1)})
		l := service(t, d, "orders")
		before, err := l.Resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.freeByForce(t, a.NodeID())
		fixture.Wait(30 * time.Second)
		after, err := l.Resolve(t.Context())
		if err != nil || len(after) != 1 || after[0].Holder == before[0].Holder {
			t.Errorf("got %v, %v, want one entry of another session than %v", after, err, before)
		}
		held, err := a.Lease()
		if err != nil || after[0].Version != held.Version || after[0].NodeID != held.NodeID {
			t.Errorf("got the lease %+v, %v, want that of the entry", held, err)
		}
		if _, err := Sweep(t.Context(), w.store, "orders"); err != nil {
			t.Fatal(err)
		}
		if left := w.left(); len(left) != 3 {
			t.Errorf("entries left: got %v, want three", left)
		}
	})
}

// Lost answers and late writes leave no entry behind.
func TestLostAnswers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		lost := 0
		w.store.lose = func(string, record) bool { lost++; return lost%2 == 1 }
		register(t, d, a, Service{"orders", at(1)}, Service{"stock", at(1)})
		register(t, d, a, Service{"orders", at(2)})
		if err := d.Deregister(bounded(t), a, Service{Name: "stock"}); err != nil {
			t.Fatal(err)
		}
		w.store.mu.Lock()
		w.store.lose = nil
		w.store.mu.Unlock()
		wantPorts(t, service(t, d, "orders"), 2)
		wantPorts(t, service(t, d, "stock"))

		// A registration that arrives after it was withdrawn is refused.
		held, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		here := at(1)
		late := record{NodeID: held.NodeID, Holder: held.Holder, Version: held.Version, Revision: 3, Address: (*entries.Address)(&here)}
		if _, applied, err := w.store.Write(t.Context(), "orders#svc#stock", late); applied || err != nil {
			t.Errorf("got applied %v, %v, want a refusal", applied, err)
		}
	})
}

func TestRegisterWaits(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		w.setOutage(errors.New("away"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := d.Register(ctx, a, Service{"orders", at(1)}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "away") {
			t.Errorf("got %v, want DeadlineExceeded with the store's error", err)
		}
		w.setOutage(nil)
		fixture.Wait(2 * time.Second)
		wantPorts(t, service(t, d, "orders"), 1) // the write was tried again

		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := d.Register(bounded(t), a, Service{"orders", at(1)}); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
		if err := d.Leave(bounded(t), a); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

// An agent of another pool is refused. Its entries would never be valid, and would block
// the entries of the holder of the same node ID in the directory's pool.
func TestAgentOfAnotherPool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(1)
		if _, err := leasepool.Open(w.leases, "payments").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
			t.Fatal(err)
		}
		_ = w.agent(t, nil).Close()
		stranger := w.agent(t, func(c *lease.Config) { c.Wait = time.Minute }) // node ID 0 of orders, version 2
		holder := w.agent(t, func(c *lease.Config) { c.Pool = "payments" })    // node ID 0 of payments, version 1
		d := w.directory(t, func(c *Config) { c.Pool = "payments" })
		for name, err := range map[string]error{
			"Register":   d.Register(bounded(t), stranger, Service{"stock", at(1)}),
			"Deregister": d.Deregister(bounded(t), stranger, Service{Name: "stock"}),
			"Leave":      d.Leave(bounded(t), stranger),
		} {
			if err == nil || !strings.Contains(err.Error(), `pool "orders"`) || !strings.Contains(err.Error(), `pool "payments"`) {
				t.Errorf("%s: got %v, want an error that names both pools", name, err)
			}
		}
		register(t, d, holder, Service{"stock", at(2)})
		wantPorts(t, service(t, d, "stock"), 2)
	})
}

func TestRefusedOffers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		for _, bad := range [][]Offer{
			{Service{"", at(1)}},
			{Service{"a#b", at(1)}},
			{Endpoint{"shard", "_", at(1)}},
			{Endpoint{"shard", "a#b", at(1)}},
			{Service{"orders", Address{}}},
			{Service{"orders", Address{Host: "a b"}}},
			{Service{"orders", at(70000)}},
			{Service{"orders", Address{Host: "h", Weight: 101}}},
			{Service{"orders", Address{Host: "h", Labels: map[string]string{"x": strings.Repeat("y", 600)}}}},
			{Service{"orders", at(1)}, Service{"orders", at(2)}},
			{Service{"good", at(1)}, Service{"", at(1)}},
		} {
			if err := d.Register(bounded(t), a, bad...); err == nil {
				t.Errorf("%+v was accepted", bad)
			}
		}
		many := make([]Offer, maxOffers+1)
		for i := range many {
			many[i] = Endpoint{"shard", strings.Repeat("x", i+1), at(1)}
		}
		if err := d.Register(bounded(t), a, many...); err == nil {
			t.Error("too many were accepted")
		}
		register(t, d, a, many[1:]...)
		if w.store.sent() != maxOffers+1 {
			t.Errorf("got %d writes, want one for each offer and one for the list", w.store.sent())
		}
		for _, bad := range []Config{{Pool: "a#b", Store: w.store}, {Pool: "orders"}, {Pool: "orders", Store: w.store, MaxAge: time.Millisecond}} {
			if _, err := New(bad); err == nil {
				t.Errorf("%+v was accepted", bad)
			}
		}
	})
}
