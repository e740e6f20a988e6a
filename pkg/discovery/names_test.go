package discovery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

func wantNames(t *testing.T, n *Names, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := n.List(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// The names of services, of keys and of a service's endpoints are those that live processes
// offer. One Query of the lists is enough for all of them.
func TestNames(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a, b := w.agent(t, nil), w.agent(t, nil)
		d := w.directory(t, nil)
		wantNames(t, d.Services(), nil)
		fixture.Wait(2 * defaultMaxAge)
		register(t, d, a, Service{"orders", at(1)}, Endpoint{"shard", "7", at(1)}, Endpoint{"shard", "", at(1)}, Endpoint{"tenant", "x", at(1)})
		register(t, d, b, Service{"orders", at(2)}, Service{"stock", at(2)}, Endpoint{"shard", "9", at(2)}, Endpoint{"shards", "1", at(2)})
		before := w.store.queries
		keys, err := d.Keys("shard")
		wantNames(t, keys, err, "", "7", "9")
		wantNames(t, d.Services(), nil, "orders", "stock")
		other, err := d.Keys("nobody")
		wantNames(t, other, err)
		of, err := d.Endpoints("orders")
		wantNames(t, of, err, "shard", "shards", "tenant")
		of, err = d.Endpoints("stock")
		wantNames(t, of, err, "shard", "shards")
		if got := w.store.queries - before; got != 1 {
			t.Errorf("%d queries, want 1", got)
		}
		reader := w.directory(t, nil)
		wantNames(t, reader.Services(), nil, "orders", "stock")
		if len(reader.groups) != 0 {
			t.Error("the next reader read leases despite the stored findings")
		}

		w.kill(b)
		fixture.Wait(time.Until(w.lease(t, b.NodeID()).ExpiresAt) + time.Millisecond)
		wantNames(t, keys, nil, "", "7")
		wantNames(t, d.Services(), nil, "orders")
		away := errors.New("away")
		w.setOutage(away)
		fixture.Wait(time.Minute)
		if got, err := keys.List(t.Context()); !errors.Is(err, away) || !slices.Equal(got, []string{"", "7"}) {
			t.Errorf("in an outage: got %q, %v, want the last answer and %v", got, err, away)
		}
		w.setOutage(nil)
		for _, bad := range []string{"", "a#b"} {
			if _, err := d.Keys(bad); err == nil {
				t.Errorf("an endpoint %q was accepted", bad)
			}
			if _, err := d.Endpoints(bad); err == nil {
				t.Errorf("a service %q was accepted", bad)
			}
		}
	})
}

// A name is listed only while a live instance offers it: not after its offer was
// deregistered, although the process still has another offer.
func TestDeregisteredNameIsNotListed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)}, Service{"stock", at(1)}, Endpoint{"shard", "7", at(1)})
		if err := d.Deregister(bounded(t), a, Service{Name: "stock"}, Endpoint{Name: "shard", Key: "7"}); err != nil {
			t.Fatal(err)
		}
		reader := w.directory(t, nil)
		wantNames(t, reader.Services(), nil, "orders")
		keys, err := reader.Keys("shard")
		wantNames(t, keys, err)
	})
}

// A service of a crashed process is not listed as a service of the next holder of its node
// ID.
func TestNameOfTheLastHolderIsNotListed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(1)
		first := w.agent(t, nil)
		register(t, w.directory(t, nil), first, Service{"stock", at(1)})
		w.kill(first)
		second := w.agent(t, func(c *lease.Config) { c.Wait = time.Minute })
		register(t, w.directory(t, nil), second, Service{"orders", at(2)})
		wantNames(t, w.directory(t, nil).Services(), nil, "orders")
	})
}

// A watch yields the names when they change, and only then.
func TestWatchNames(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a, b := w.agent(t, nil), w.agent(t, nil)
		d := w.directory(t, nil)
		lists := make(chan []string, 100)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for list := range d.Services().Watch(ctx) {
				lists <- list
			}
		}()
		for _, step := range []struct {
			do   func()
			want []string
		}{
			{func() {}, nil},
			{func() { register(t, d, a, Service{"orders", at(1)}) }, []string{"orders"}},
			{func() { register(t, d, b, Service{"orders", at(2)}, Service{"stock", at(2)}) }, []string{"orders", "stock"}},
			{func() { _ = d.Leave(t.Context(), b) }, []string{"orders"}},
		} {
			step.do()
			fixture.Wait(2 * defaultMaxAge)
			if got := <-lists; !slices.Equal(got, step.want) || len(lists) > 0 {
				t.Errorf("got %q and %d more, want %q", got, len(lists), step.want)
			}
		}
	})
}
