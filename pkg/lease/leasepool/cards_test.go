package leasepool_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Cards that are ahead of the pool's item are of one that is gone: items were put back
// from a backup beside them, or the pool was deleted by hand. Each verb replaces them.
func TestCardsOfAPoolThatIsGone(t *testing.T) {
	for name, verb := range map[string]func(p *leasepool.Pool) error{
		"raise":  func(p *leasepool.Pool) error { _, err := p.Raise(t.Context(), time.Time{}); return err },
		"tend":   func(p *leasepool.Pool) error { _, err := p.Tend(t.Context()); return err },
		"resize": func(p *leasepool.Pool) error { _, err := p.Resize(t.Context(), leasepool.Spec{Size: 9}); return err },
		"seed":   func(p *leasepool.Pool) error { _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := fixture.NewCards(fixture.NewNetwork(0))
			p := leasepool.Open(s, "orders")
			if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.Discord()}); err != nil {
				t.Fatal(err)
			}
			for size := 9; size < 15; size++ {
				if _, err := p.Resize(t.Context(), leasepool.Spec{Size: size}); err != nil {
					t.Fatal(err)
				}
			}
			s.Network = fixture.NewNetwork(0)
			if name != "seed" {
				if _, err := leasepool.Open(s.Network, "orders").Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
					t.Fatal(err)
				}
			}
			if err := verb(p); err != nil {
				t.Fatal(err)
			}
			item, err := s.PoolItem(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			for n := range protocol.Cards {
				if card, err := s.Card(t.Context(), "orders", n); err != nil || card.Revision != item.Revision || card.Layout != nil || card.Size != item.Size {
					t.Errorf("card %d is %+v, %v, want a copy of %+v", n, card, err, item)
				}
			}
		})
	}
}

// A card that another verb has written since is no sign of a pool that is gone.
func TestCardsOfAFasterVerb(t *testing.T) {
	s := fixture.NewCards(fixture.NewNetwork(0))
	p := leasepool.Open(s, "orders")
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	slow := leasepool.Open(&faster{s, func() {
		if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 9}); err != nil {
			t.Error(err)
		}
	}}, "orders")
	if _, err := slow.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if item, err := s.PoolItem(t.Context(), "orders"); err != nil || item.Revision != 2 {
		t.Errorf("got revision %d, %v, want that of the resize: 2", item.Revision, err)
	}
}

// faster is a store on which another verb ends between the read of the pool's item and
// that of its cards.
type faster struct {
	*fixture.Cards
	verb func()
}

func (s *faster) Judge(ctx context.Context) (*protocol.Verdict, error) {
	s.verb()
	return s.Cards.Judge(ctx)
}
