package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// If a process ends while it registers, the sweep finds its entries, at whatever point
// the process has ended.
func TestNoEntryWithoutItsList(t *testing.T) {
	for enough := range 5 {
		t.Run(fmt.Sprint(enough), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				w := newWorld(8)
				a := w.agent(t, nil)
				d := w.directory(t, nil)
				w.store.after(enough)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := d.Register(ctx, a, Service{"orders", at(1)}, Service{"stock", at(1)}, Endpoint{"shard", "7", at(1)})
				if (err == nil) != (enough > 3) || len(w.left()) != enough {
					t.Fatalf("got %v with the entries %v, want one entry for each write", err, w.left())
				}
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				w.store.after(-1)
				if _, err := Sweep(t.Context(), w.store, "orders"); err != nil || len(w.left()) != 0 {
					t.Errorf("got %v with the entries %v, want none left", err, w.left())
				}
			})
		})
	}
}

// shards returns offers of the keys from..to-1.
func shards(from, to int) (all []Offer) {
	for i := from; i < to; i++ {
		all = append(all, Endpoint{"shard", fmt.Sprintf("%03d", i), at(1)})
	}
	return all
}

// A process that takes the node ID of a crashed process, and registers other places, is
// listed with all of its places, and its entries are swept after its end. The list would be
// too long if it also had the places of the crashed process.
func TestListWithThePlacesOfTheLastHolder(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := fixture.NewTable(t, 1)
		open := func() *Directory {
			return directory(t, Config{Store: NewTable(tab.Client("d"), tab.Name), Pool: "orders", Logger: silent})
		}
		start := func(name string) *lease.Agent {
			a, err := lease.Start(t.Context(), lease.Config{Store: tab.Store(name), Pool: "orders", Logger: silent, Wait: time.Minute, OnLost: lease.StopOnLoss})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			return a
		}
		register(t, open(), start("first"), shards(0, 60)...)
		tab.SetAway("first", true) // a crash
		second := start("second")
		register(t, open(), second, append(shards(100, 160), Service{"stock", at(2)})...)
		fixture.Wait(time.Minute)
		wantNames(t, open().Services(), nil, "stock")
		keys, _ := open().Keys("shard")
		if got, err := keys.List(t.Context()); err != nil || len(got) != 60 {
			t.Errorf("got %d keys, %v, want 60", len(got), err)
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := Sweep(t.Context(), NewTable(tab.Client("s"), tab.Name), "orders"); err != nil || n != 61 {
			t.Errorf("the sweep cleared %d entries, %v, want 61", n, err)
		}
	})
}

// A process whose Deregister is still pending when it registers other offers is listed, too.
func TestListWhileOffersAreReplaced(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := fixture.NewTable(t, 1)
		open := func(name string) *Directory {
			return directory(t, Config{Store: NewTable(tab.Client(name), tab.Name), Pool: "orders", Logger: silent})
		}
		a, err := lease.Start(t.Context(), lease.Config{Store: tab.Store("a"), Pool: "orders", Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		d := open("d")
		register(t, d, a, shards(0, 60)...)
		tab.SetAway("d", true) // for a moment
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Deregister(ctx, a, shards(0, 60)...); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want DeadlineExceeded", err)
		}
		tab.SetAway("d", false)
		register(t, d, a, shards(100, 160)...)
		keys, _ := open("r").Keys("shard")
		if got, err := keys.List(t.Context()); err != nil || len(got) != 60 {
			t.Errorf("got %d keys, %v, want 60", len(got), err)
		}
	})
}

// If the answer to the write of an entry was lost, the entry is withdrawn like one that
// is known to exist.
func TestDeregisterWhatIsInDoubt(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		lose := func(f func(string, record) bool) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.lose = f
		}
		lose(func(partition string, _ record) bool { return strings.HasSuffix(partition, "#stock") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Register(ctx, a, Service{"stock", at(1)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want DeadlineExceeded", err)
		}
		wantPorts(t, service(t, d, "stock"), 1) // it exists
		lose(nil)
		if err := d.Deregister(bounded(t), a, Service{Name: "stock"}); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, service(t, w.directory(t, nil), "stock"))
	})
}

// If the answer to the write of a shorter list was lost, the list is completed before an
// offer that it may lack is registered again.
func TestListInDoubt(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)}, Service{"stock", at(1)})
		lose := func(f func(string, record) bool) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.lose = f
		}
		lose(func(partition string, _ record) bool { return partition == listsOf("orders", 0) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Deregister(ctx, a, Service{Name: "stock"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want DeadlineExceeded", err)
		}
		wantNames(t, w.directory(t, nil).Services(), nil, "orders") // the shorter list exists
		lose(nil)
		register(t, d, a, Service{"stock", at(1)})
		wantNames(t, w.directory(t, nil).Services(), nil, "orders", "stock")
	})
}

// If leases were read before the lease that an entry names was claimed, the read proves
// nothing about that lease.
func TestLeasesReadTooEarly(t *testing.T) {
	h := holders{1: {"one", 5, time.Now().Add(time.Minute)}, 2: {"", 5, time.Time{}}}
	for _, c := range []struct {
		r    record
		over bool
	}{
		{record{NodeID: 1, Holder: "one", Version: 5}, false},
		{record{NodeID: 1, Holder: "next", Version: 6}, false},
		{record{NodeID: 1, Holder: "before", Version: 4}, true},
		{record{NodeID: 2, Holder: "released", Version: 5}, true},
		{record{NodeID: 3, Holder: "unseen", Version: 5}, false},
	} {
		if got := h.over(c.r); got != c.over {
			t.Errorf("%+v: ended %v", c.r, got)
		}
		known, _ := shared(share(record{}, []record{c.r}, h, time.Now()), []record{c.r})
		if got, want := known.unaware([]record{c.r}), c.r.Version > h[c.r.NodeID].version; got != want {
			t.Errorf("%+v: unknown to others: %v, want %v", c.r, got, want)
		}
		if got, want := known.of(c.r).UnixMilli(), h.of(c.r).UnixMilli(); got != want {
			t.Errorf("%+v: others believe that its lease ends at %v, want %v", c.r, got, want)
		}
	}
}

// stuck is a log handler that does not return until the test releases it.
type stuck struct {
	slog.Handler
	entered chan struct{}
	leave   chan struct{}
}

func (s stuck) Handle(context.Context, slog.Record) error {
	close(s.entered)
	<-s.leave
	return nil
}

// Callers can give up even if the Logger blocks.
func TestBlockedLog(t *testing.T) {
	w := newWorld(8)
	a := w.agent(t, nil)
	w.store.after(0)
	log := stuck{slog.NewTextHandler(io.Discard, nil), make(chan struct{}), make(chan struct{})}
	t.Cleanup(func() { close(log.leave) })
	d := w.directory(t, func(c *Config) { c.Logger = slog.New(log) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan struct{}, 2)
	go func() { _ = d.Register(ctx, a, Service{"orders", at(1)}); gone <- struct{}{} }()
	<-log.entered
	go func() { _ = d.Deregister(ctx, a, Service{Name: "stock"}); gone <- struct{}{} }()
	cancel()
	for range 2 {
		select {
		case <-gone: // with or without an error, but without waiting for the log
		case <-time.After(30 * time.Second):
			t.Fatal("a caller whose context has ended still waits for the log")
		}
	}
}
