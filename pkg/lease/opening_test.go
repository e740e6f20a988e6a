package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// jammed is a store that answers one read of the pool's item, and no later one.
type jammed struct {
	*fixture.Network
	reads int
}

func (s *jammed) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if s.reads++; s.reads > 1 {
		return protocol.PoolItem{}, errors.New("throttled")
	}
	return s.Network.PoolItem(ctx, pool)
}

// A claimant opens groups, and learns of those that others opened, while the reads of the
// pool's item are throttled.
func TestOpeningNeedsNoRead(t *testing.T) {
	for name, first := range map[string]bool{"it is the first": true, "somebody was first": false} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &jammed{Network: &fixture.Network{Memory: leasetest.NewMemory("", 0)}}
				occupied(t, s.Memory, 2048, 0, 0)
				if _, err := s.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 8, To: 1}); err != nil {
					t.Fatal(err)
				}
				for n := range protocol.GroupSize {
					fixture.Hold(t, s, n, time.Now(), time.Hour)
				}
				s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
					if !first && w.Item().NodeID < protocol.GroupSize { // its guess
						first = true
						if _, err := s.Memory.WritePool(ctx, protocol.OpenGroups{Pool: "orders", From: 1, To: 4}); err != nil {
							t.Error(err)
						}
					}
					return do()
				})
				a, err := lease.Start(t.Context(), fixture.Config(s))
				if err != nil {
					t.Fatal(err)
				}
				p, err := s.Network.PoolItem(t.Context(), "orders")
				if err != nil || p.OpenGroups < 2 || a.NodeID() < protocol.GroupSize {
					t.Errorf("got node ID %d with %d groups open, %v", a.NodeID(), p.OpenGroups, err)
				}
				_ = a.Close()
			})
		})
	}
}

// A store that reads parts of groups.
type inParts struct {
	*leasetest.Memory
	parts, pages, strong atomic.Int64
}

func (s *inParts) EventualPart(ctx context.Context, pool string, n, part int) (protocol.Group, error) {
	s.parts.Add(1)
	g, err := s.Memory.Group(ctx, pool, n)
	return fixture.Part(g, part), err
}

func (s *inParts) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.pages.Add(1)
	return s.Memory.Group(ctx, pool, n)
}

func (s *inParts) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	s.strong.Add(1)
	return s.Memory.Group(ctx, pool, n)
}

// A start in a pool that is half full reads a part of a group, and no page. In a full pool
// the part is one read more: whole pages decide, and find the last node ID.
func TestPartsOfGroups(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		occupied(t, s.Memory, 1024, 0, .5)
		for range 200 {
			a, err := lease.Start(t.Context(), fixture.Config(s))
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Close()
		}
		if parts, pages := s.parts.Load(), s.pages.Load()+s.strong.Load(); parts == 0 || pages > 0 {
			t.Errorf("got %d parts and %d pages for 200 starts, want parts alone", parts, pages)
		}
	})
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		occupied(t, s.Memory, 1024, 0, 1)
		var none *lease.ExhaustedError
		cfg := fixture.Config(s)
		cfg.TTL = 2 * time.Hour // reservations of others do not show that a clock is behind
		if _, err := lease.Start(t.Context(), cfg); !errors.As(err, &none) || none.Size != 1024 || strings.Contains(err.Error(), "groups") {
			t.Errorf("got %v, want an ExhaustedError of all 1,024", err)
		}
		if parts, pages, strong := s.parts.Load(), s.pages.Load(), s.strong.Load(); parts != 1 || pages != 4 || strong != 4 {
			t.Errorf("got %d parts, %d pages and %d strong pages, want 1, 4 and 4", parts, pages, strong)
		}
		last := item(t, s, 777)
		if _, err := s.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 777}, Session: last.Holder, Version: last.Version, ReservedUntil: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if a := fixture.Start(t, fixture.Config(s)); a.NodeID() != 777 {
			t.Errorf("got node ID %d, want 777, the only free one", a.NodeID())
		}
	})
}

// A full part does not make a newcomer wait with the claimants of the note: it reads the whole
// group first.
func TestAFullPartIsNoFullGroup(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		occupied(t, s.Memory, protocol.GroupSize, 0, 1)
		last := item(t, s, 100)
		if _, err := s.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 100}, Session: last.Holder, Version: last.Version, ReservedUntil: time.Now()}); err != nil {
			t.Fatal(err)
		}
		n, err := s.Note(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, applied, err := s.WriteNote(t.Context(), protocol.Await{Pool: "orders", Seen: n.Until, Until: time.Now().Add(time.Minute)}); err != nil || !applied {
			t.Fatal(applied, err)
		}
		for range 20 {
			cfg := fixture.Config(s)
			cfg.Wait = time.Minute
			began := time.Now()
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the start took %v, want no wait for a free node ID", took)
			}
			_ = a.Close()
			time.Sleep(time.Millisecond) // virtual: its last millisecond passes
		}
	})
}

// A part of a narrow pool that is crowded by chance, in a group with room, opens no groups:
// they would make all IDs wider.
func TestAPartWithRoomOpensNoGroup(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 2048, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(1, 1))
		for n := range protocol.GroupSize {
			if dice.Float64() < .6 {
				fixture.Hold(t, s, n, time.Now(), time.Hour)
			}
		}
		for range 300 {
			a, err := lease.Start(t.Context(), fixture.Config(s))
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Close()
			time.Sleep(time.Millisecond) // virtual: its last millisecond passes
		}
		if p, err := s.PoolItem(t.Context(), "orders"); err != nil || p.OpenGroups != 1 || s.parts.Load() < 100 {
			t.Errorf("got %d open groups after %d parts, %v, want one", p.OpenGroups, s.parts.Load(), err)
		}
	})
}

// A narrow pool reaches its width for a fleet of 1,024 that starts at once in two changes.
func TestNarrowPoolForAFleet(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &inParts{Memory: leasetest.NewMemory("", 0)}
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 65536, Narrow: true}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 1024 {
			cfg := fixture.Config(s)
			cfg.Wait = 10 * time.Minute
			all.Go(func() { fixture.Start(t, cfg) })
		}
		all.Wait()
		fixture.Wait(5 * time.Minute)
		p, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if changes := len(p.Eras) - 1; changes > 2 || p.Bits() != 11 || p.Widening.State == protocol.WidenOpen {
			t.Errorf("got %d changes of the width, to %d bits for %d open groups, want two, to 11 bits", changes, p.Bits(), p.OpenGroups)
		}
	})
}
