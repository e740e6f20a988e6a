package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// largeWorld returns a pool whose node IDs begin at 4,046: fifty have their lists in the
// first partition, and a hundred in the second.
func largeWorld(t *testing.T) (w *world, agent func() *lease.Agent, directory func() *Directory) {
	w = newWorld(1)
	if _, err := leasepool.Open(w.leases, "large").Seed(t.Context(), leasepool.Spec{Size: listsSpan + 100, ExcludeBelow: listsSpan - 50, Expect: 60}); err != nil {
		t.Fatal(err)
	}
	agent = func() *lease.Agent { return w.agent(t, func(c *lease.Config) { c.Pool = "large" }) }
	return w, agent, func() *Directory { return w.directory(t, func(c *Config) { c.Pool = "large" }) }
}

// The lists of a large pool are in several partitions. The lists in all of these
// partitions are read and swept.
func TestListsOfALargePool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w, agent, directory := largeWorld(t)
		d := directory()
		of := map[int]*lease.Agent{}
		for len(of) < 2 {
			a := agent()
			part := a.NodeID() / listsSpan
			register(t, d, a, Service{"orders", at(1)}, Service{fmt.Sprint("part", part), at(1)})
			of[part] = a
		}
		names, err := directory().Services().List(t.Context())
		if want := []string{"orders", "part0", "part1"}; err != nil || !slices.Equal(names, want) {
			t.Fatalf("got %q, %v, want %q", names, err, want)
		}
		for part, gone := range of {
			w.kill(gone)
			held, err := gone.Lease()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := leasepool.Open(w.leases, "large").ForceRelease(t.Context(), gone.NodeID(), held.Version); err != nil {
				t.Fatal(err)
			}
			if n, err := Sweep(t.Context(), w.store, "large"); err != nil || n != 2 {
				t.Errorf("Sweep cleared %d entries of a node ID of partition %d, %v, want 2", n, part, err)
			}
		}
	})
}

// A list is written after the pointer to its partition, and only the first list in a
// partition writes the pointer.
func TestPointerComesFirst(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w, agent, directory := largeWorld(t)
		a := agent()
		for a.NodeID() < listsSpan {
			a = agent()
		}
		var order []string
		w.store.lose = func(partition string, r record) bool {
			if strings.HasPrefix(partition, "large#registered") {
				order = append(order, partition)
			}
			return false
		}
		register(t, directory(), a, Service{"orders", at(1)})
		if want := []string{listsOf("large", 0), listsOf("large", a.NodeID())}; !slices.Equal(order, want) {
			t.Errorf("wrote to %q, want %q", order, want)
		}
		for b := agent(); ; b = agent() {
			if b.NodeID() < listsSpan {
				continue
			}
			order = nil
			register(t, directory(), b, Service{"orders", at(1)})
			if want := []string{listsOf("large", b.NodeID())}; !slices.Equal(order, want) {
				t.Errorf("the next one wrote to %q, want %q", order, want)
			}
			return
		}
	})
}

// Pointers that no process writes, and lists in the wrong partition, are ignored.
func TestForgedPointers(t *testing.T) {
	s := entries.NewMemory(nil)
	put := func(partition string, r record) {
		if _, _, err := s.Write(t.Context(), partition, r); err != nil {
			t.Fatal(err)
		}
	}
	first := listsOf("orders", 0)
	for _, n := range []int{-1, -2, -3, -17, -18, -1 << 30} {
		put(first, record{NodeID: n, Version: 1})
	}
	put(first, record{NodeID: 7, Version: 1, Holder: "a"})
	put(first, record{NodeID: listsSpan + 1, Version: 1, Holder: "d"})
	put(listsOf("orders", listsSpan), record{NodeID: 7, Version: 2, Holder: "b"})
	put(listsOf("orders", listsSpan), record{NodeID: listsSpan, Version: 2, Holder: "c"})
	put(listsOf("orders", listsSpan), record{NodeID: -3, Version: 1})
	queries := 0
	all, err := queryAll(context.Background(), countQueries{s, &queries}, "orders", listsPlace)
	var holders []string
	for _, r := range all {
		if r.NodeID >= 0 {
			holders = append(holders, r.Holder)
		}
	}
	slices.Sort(holders)
	if err != nil || !slices.Equal(holders, []string{"a", "c"}) || queries != 3 {
		t.Errorf("got the lists of %q with %d queries, %v, want a and c with 3", holders, queries, err)
	}
}

type countQueries struct {
	*entries.Memory
	n *int
}

func (c countQueries) Query(ctx context.Context, partition string) ([]record, error) {
	*c.n++
	return c.Memory.Query(ctx, partition)
}
