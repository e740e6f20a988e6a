package discovery

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestMemoryConforms(t *testing.T) {
	conformance(t, func(*testing.T) Store { return entries.NewMemory(leasetest.NewMemory("", 0)) })
}

func TestEmbeddedConforms(t *testing.T) {
	conformance(t, func(t *testing.T) Store {
		client := dynamotest.Embedded(t)
		return NewTable(client, dynamotest.CreateTable(t, client))
	})
}

func TestDynamoDBLocalConforms(t *testing.T) {
	conformance(t, func(t *testing.T) Store {
		client := dynamotest.Local(t)
		return NewTable(client, dynamotest.CreateTable(t, client))
	})
}

// conformance tests the behavior that all stores share.
func conformance(t *testing.T, open func(*testing.T) Store) {
	here := Address{Host: "10.0.0.7", Port: 8080, Zone: "a", Weight: 3, Labels: map[string]string{"build": "7"}}
	for name, fn := range map[string]func(*testing.T, Store){
		"the newer one wins":               theNewerWins,
		"records are stored whole":         func(t *testing.T, s Store) { comeBackWhole(t, s, here) },
		"one of many writers is the first": oneOfMany,
		"from entry to sweep":              fromEntryToSweep,
	} {
		t.Run(name, func(t *testing.T) { fn(t, open(t)) })
	}
}

func theNewerWins(t *testing.T, s Store) {
	const partition = "orders#svc#orders"
	here := Address{Host: "h"}
	of := func(version, revision int64, holder string) record {
		r := record{NodeID: 7, Version: version, Revision: revision, Holder: holder}
		if holder != "" {
			r.Address = (*entries.Address)(&here)
		}
		return r
	}
	now := record{}
	for i, c := range []struct {
		r    record
		want bool
	}{
		{of(5, 2, "five"), true},
		{of(5, 2, "five"), false}, // repeated
		{of(5, 1, "five"), false}, // late
		{of(4, 9, "four"), false}, // of an earlier holder
		{of(5, 3, ""), true},      // withdrawn
		{of(5, 2, "five"), false},
		{of(5, 4, "five"), true},
		{buried(7, 5), true},
		{of(5, 5, "five"), false}, // the last write of a holder that is gone, which arrives late
		{of(6, 1, "six"), true},
		{buried(7, 5), false},
		{of(9, 1, "nine"), true},
	} {
		stored, applied, err := s.Write(t.Context(), partition, c.r)
		if err != nil || applied != c.want {
			t.Fatalf("write %d: got applied %v, %v", i, applied, err)
		}
		if c.want {
			now = c.r
		}
		got, err := s.Get(t.Context(), partition, 7)
		if err != nil || !reflect.DeepEqual(got, now) || !reflect.DeepEqual(stored, now) {
			t.Fatalf("write %d left %+v (%v) and returned %+v, want %+v", i, got, err, stored, now)
		}
	}
	if r, err := s.Get(t.Context(), partition, 8); err != nil || !reflect.DeepEqual(r, record{}) {
		t.Errorf("at an empty place got %+v, %v", r, err)
	}
}

func comeBackWhole(t *testing.T, s Store, here Address) {
	var want []record
	for n := range 300 {
		want = append(want, record{NodeID: n, Holder: fmt.Sprint("h", n), Version: int64(n), Revision: 1, Address: (*entries.Address)(&here)})
		if _, applied, err := s.Write(t.Context(), "orders#svc#orders", want[n]); err != nil || !applied {
			t.Fatal(applied, err)
		}
	}
	list := record{NodeID: 3, Holder: "h3", Version: 3, Revision: 1, Places: []string{"svc#orders", "ep#shard#_"}}
	if _, applied, err := s.Write(t.Context(), listsOf("orders", 3), list); err != nil || !applied {
		t.Fatal(applied, err)
	}
	for partition, want := range map[string][]record{"orders#svc#orders": want, listsOf("orders", 3): {list}, "orders#svc#order": nil} {
		got, err := s.Query(t.Context(), partition)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d records, %v, want %d", partition, len(got), err, len(want))
		}
	}
}

func oneOfMany(t *testing.T, s Store) {
	var applied atomic.Int64
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			_, ok, err := s.Write(t.Context(), "orders#svc#orders", record{NodeID: 1, Holder: fmt.Sprint(n), Version: 1, Revision: 1})
			if err != nil {
				t.Error(err)
			}
			if ok {
				applied.Add(1)
			}
		})
	}
	wg.Wait()
	if applied.Load() != 1 {
		t.Errorf("%d writes of one revision were done", applied.Load())
	}
}

// fromEntryToSweep goes through the life of a pool's entries, from Register to Sweep.
func fromEntryToSweep(t *testing.T, s Store) {
	if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 3}); err != nil {
		t.Fatal(err)
	}
	d := directory(t, Config{Store: s, Pool: "orders", MaxAge: time.Hour, Logger: silent})
	var agents []*lease.Agent
	for n := range 3 {
		a, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		agents = append(agents, a)
		register(t, d, a, Service{"orders", at(n)}, Endpoint{"shard", fmt.Sprint(n), at(n)})
	}
	wantPorts(t, service(t, d, "orders"), 0, 1, 2)
	if cleared, err := Sweep(t.Context(), s, "orders"); err != nil || cleared != 0 {
		t.Fatalf("%d live entries were cleared, %v", cleared, err)
	}

	if err := d.Deregister(bounded(t), agents[2], Service{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	wantPorts(t, service(t, d, "orders"), 0, 1)
	gone := agents[1].NodeID()
	if err := agents[1].Close(); err != nil {
		t.Fatal(err)
	}
	fresh := directory(t, Config{Store: s, Pool: "orders", MaxAge: 100 * time.Millisecond, Logger: silent})
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for list := range service(t, fresh, "orders").Watch(limit) {
		if slices.Equal(portsOf(list), []int{0}) {
			break
		}
	}
	if limit.Err() != nil {
		t.Fatal("the instance whose lease was released is still listed")
	}
	for round, want := range []int{2, 0} {
		if cleared, err := Sweep(t.Context(), s, "orders"); err != nil || cleared != want {
			t.Errorf("sweep %d cleared %d, %v, want %d", round, cleared, err, want)
		}
	}
	for _, partition := range []string{"orders#svc#orders", "orders#ep#shard#1", listsOf("orders", 3)} {
		all, err := s.Query(t.Context(), partition)
		if err != nil || slices.ContainsFunc(all, func(r record) bool { return r.NodeID == gone && r.Holder != "" }) {
			t.Errorf("%s: got %+v, %v, want no entry of the dead holder", partition, all, err)
		}
	}
	wantPorts(t, service(t, fresh, "orders"), 0)
}

// Writing an item costs at most one write unit, and the item of a withdrawn entry is
// small.
func TestItemsAreSmall(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	pool, name, long := strings.Repeat("p", 64), strings.Repeat("n", 64), strings.Repeat("k", 128)
	s := NewTable(client, table)
	p, err := endpointPlace(name, long)
	if err != nil {
		t.Fatal(err)
	}
	a := Address{Host: strings.Repeat("h", 200), Port: 65535, Zone: strings.Repeat("z", 50), Weight: 100, Labels: map[string]string{"label": strings.Repeat("l", 257)}}
	if err := a.check(); err != nil {
		t.Fatal(err)
	}
	r := record{NodeID: 65535, Holder: "0197a3e2-7d7c-7b5a-9c5d-3f0d0c1b2a39", Version: 1 << 40, Revision: 1 << 40, Address: (*entries.Address)(&a)}
	for _, c := range []struct {
		r         record
		low, high int
	}{{r, 900, 1024}, {buried(65535, 1<<41), 0, 350}} {
		if _, _, err := s.Write(t.Context(), p.in(pool), c.r); err != nil {
			t.Fatal(err)
		}
		if size := dynamotest.ItemBytes(raw(t, client, table, p.in(pool), 65535)); size < c.low || size > c.high {
			t.Errorf("got an item of %d bytes, want the size in docs/discovery.md", size)
		}
	}
}
