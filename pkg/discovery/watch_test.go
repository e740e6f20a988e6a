package discovery

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A watch yields the newest list at once, and then each change once. It does not yield
// entries that came and went while the watcher was busy.
func TestWatch(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		d := w.directory(t, nil)
		a, b := w.agent(t, nil), w.agent(t, nil)
		next, stop := iter.Pull(service(t, d, "orders").Watch(t.Context()))
		defer stop()
		expect := func(within time.Duration, want ...int) {
			t.Helper()
			began := time.Now()
			list, ok := next()
			if took := time.Since(began); !ok || !slices.Equal(portsOf(list), want) || took > within {
				t.Fatalf("%v (%v) after %v, want %v within %v", portsOf(list), ok, took, want, within)
			}
		}
		late := defaultMaxAge + defaultMaxAge/10
		expect(0)
		register(t, d, a, Service{"orders", at(1)})
		expect(late, 1)
		register(t, d, b, Service{"orders", at(2)})
		fixture.Wait(time.Second)
		register(t, d, b, Service{"orders", at(3)})
		fixture.Wait(time.Minute) // busy
		w.setOutage(errors.New("away"))
		fixture.Wait(5 * time.Second)
		w.setOutage(nil)
		expect(late, 1, 3)
		w.kill(a)
		ends := time.Until(w.lease(t, a.NodeID()).ExpiresAt)
		expect(ends+100*time.Millisecond, 3)
	})
}

// Without a reason to read earlier, a watch reads only once per MaxAge. It ends when its
// context ends.
func TestWatchIsQuiet(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		d := w.directory(t, nil)
		register(t, d, w.agent(t, nil), Service{"orders", at(1)})
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan int)
		go func() {
			n := 0
			for range service(t, d, "orders").Watch(ctx) {
				n++
			}
			told <- n
		}()
		fixture.Wait(10 * time.Minute)
		cancel()
		if n := <-told; n != 1 {
			t.Errorf("one list was delivered %d times", n)
		}
		if q := w.store.queries; q < 100 || q > 121 {
			t.Errorf("got %d queries in 10 min, want 100 to 121", q)
		}
	})
}

// Many concurrent callers cause only one request, even while the store does not answer.
func TestCallersShareAnAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		d := w.directory(t, nil)
		register(t, d, w.agent(t, nil), Service{"orders", at(1)})
		l := service(t, d, "orders")
		herd := func() {
			for range 50 {
				go func() { _, _ = l.Resolve(t.Context()) }()
			}
			synctest.Wait()
		}
		herd()
		if w.store.queries != 1 {
			t.Errorf("got %d queries, want 1", w.store.queries)
		}
		fixture.Wait(defaultMaxAge)
		w.setOutage(errors.New("away"))
		herd()
		if w.store.queries != 2 {
			t.Errorf("got %d queries, want 2", w.store.queries)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Resolve(canceled); err == nil {
			t.Error("no error")
		}
	})
}

// One of many readers reads the leases, and stores its findings for the other readers.
func TestReadersShareLeases(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		register(t, w.directory(t, nil), a, Service{"orders", at(1)})
		var readers []*Lookup
		for range 50 {
			readers = append(readers, service(t, w.directory(t, nil), "orders"))
		}
		for range 60 { // a minute
			fixture.Wait(time.Second)
			for _, l := range readers {
				wantPorts(t, l, 1)
			}
		}
		looked := 0
		for _, l := range readers {
			l.asked.dir.mu.Lock()
			looked += len(l.asked.dir.groups)
			l.asked.dir.mu.Unlock()
		}
		if w.store.published > 15 || looked > 15 {
			t.Errorf("leases were read by %d readers, and published %d times", looked, w.store.published)
		}

		// No reader has read a new instance's lease yet, so the next reader reads the
		// leases.
		register(t, w.directory(t, nil), w.agent(t, nil), Service{"orders", at(2)})
		wantPorts(t, service(t, w.directory(t, nil), "orders"), 1, 2)

		// A reader whose clock is ahead by an hour does not mislead other readers.
		found, err := w.store.Get(t.Context(), "orders#svc#orders", sharedNode)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := w.store.Query(t.Context(), "orders#svc#orders")
		if err != nil {
			t.Fatal(err)
		}
		wrong := holders{}
		for _, e := range entries {
			wrong[e.NodeID] = holder{e.Holder, e.Version, time.Now().Add(time.Second)}
		}
		if _, applied, err := w.store.Write(t.Context(), "orders#svc#orders", share(found, entries, wrong, time.Now().Add(time.Hour))); !applied || err != nil {
			t.Fatal(applied, err)
		}
		w.kill(a)
		fixture.Wait(20 * time.Second)
		wantPorts(t, service(t, w.directory(t, nil), "orders"), 2)
	})
}

// In TestChurn, processes start, are killed, leave, lose their node IDs and move for an
// hour, with outages, lost answers and a reaper. No instance is ever returned after its
// lease has ended, every live instance is found soon, and in the end no entry is left.
func TestChurn(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { fixture.Virtual(t, func(t *testing.T) { churn(t, seed) }) })
	}
}

func churn(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 10))
	w := newWorld(12)
	d := w.directory(t, nil)
	readers := []*Lookup{service(t, d, "orders"), service(t, w.directory(t, nil), "orders")}
	luck := rand.New(rand.NewPCG(seed, 11)) // luck is separate from r, because the store uses luck in other goroutines
	w.store.lose = func(string, record) bool { return luck.IntN(10) == 0 }
	offers := func(port int) []Offer {
		return []Offer{Service{"orders", at(port)}, Endpoint{"shard", fmt.Sprint(port % 20), at(port)}}
	}
	var living []*lease.Agent
	over := map[string]time.Time{} // when a session must no longer be listed
	ending := func(a *lease.Agent, at func(lease.Lease) time.Time) {
		if held, err := a.Lease(); err == nil {
			if l := w.lease(t, held.NodeID); l.Version == held.Version {
				over[held.Holder] = at(l)
			}
		}
	}
	whenExpired := func(l lease.Lease) time.Time {
		if l.Holder == "" { // freed by force, before it was killed
			return time.Now().Add(2 * defaultMaxAge)
		}
		return l.ExpiresAt
	}
	soon := func(lease.Lease) time.Time { return time.Now().Add(2 * defaultMaxAge) }
	port := 0
	for range 300 {
		fixture.Wait(rand.N(6 * time.Second))
		switch i := r.IntN(max(len(living), 1)); {
		case len(living) < 3 || r.IntN(3) == 0 && len(living) < 8:
			a := w.agent(t, func(c *lease.Config) { c.OnLost, c.Wait = lease.Reacquire, time.Hour })
			living = append(living, a)
			port++
			_ = d.Register(bounded(t), a, offers(port)...)
		case r.IntN(4) == 0:
			w.kill(living[i])
			ending(living[i], whenExpired)
			_ = living[i].Close() // without any request to the table, since it was killed
			living = slices.Delete(living, i, i+1)
		case r.IntN(3) == 0:
			ending(living[i], soon)
			_ = d.Leave(bounded(t), living[i])
			_ = living[i].Close()
			living = slices.Delete(living, i, i+1)
		case r.IntN(3) == 0:
			port++
			_ = d.Register(bounded(t), living[i], Service{"orders", at(port)})
		case r.IntN(3) == 0:
			if held, err := living[i].Lease(); err == nil && w.lease(t, held.NodeID).Holder == held.Holder {
				ending(living[i], soon)
				w.freeByForce(t, held.NodeID)
			}
		case r.IntN(6) == 0:
			w.setOutage(errors.New("away"))
			fixture.Wait(rand.N(40 * time.Second))
			w.setOutage(nil)
		default:
			if _, err := leasepool.Open(w.leases, "orders").Reap(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := Sweep(t.Context(), w.store, "orders"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want context.DeadlineExceeded", err)
			}
		}
		list, err := readers[r.IntN(2)].Resolve(t.Context())
		for _, i := range list {
			if end, ok := over[i.Holder]; ok && err == nil && time.Now().After(end) {
				t.Fatalf("%+v is listed, though it ended at %v", i, time.Since(end))
			}
		}
	}
	fixture.Wait(2 * time.Minute)
	for _, l := range readers {
		if list, err := l.Resolve(t.Context()); err != nil || len(list) != len(living) {
			t.Errorf("found %d, %v, of %d live", len(list), err, len(living))
		}
	}
	w.store.mu.Lock()
	w.store.lose = nil
	w.store.mu.Unlock()
	for _, a := range living {
		if err := d.Leave(bounded(t), a); err != nil {
			t.Error(err)
		}
	}
	for range 4 { // scans of the reaper
		if _, err := leasepool.Open(w.leases, "orders").Reap(t.Context()); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Minute)
	}
	if _, err := Sweep(t.Context(), w.store, "orders"); err != nil {
		t.Fatal(err)
	}
	if left := w.left(); len(left) != 0 {
		t.Errorf("entries left: got %v, want none", left)
	}
}
