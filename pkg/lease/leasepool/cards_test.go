package leasepool_test

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// If the items were restored from a backup but the cards were not, the cards are newer
// than the pool's item. A raise replaces these cards.
func TestRaiseReplacesCardsOfAnItemThatIsGone(t *testing.T) {
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
	if _, err := leasepool.Open(s.Network, "orders").Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Raise(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	item, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	for n := range protocol.Cards {
		if card, err := s.Card(t.Context(), "orders", n); err != nil || card.Revision != item.Revision || card.Layout != nil || card.Size != 8 {
			t.Errorf("card %d is %+v, %v, want a copy of %+v", n, card, err, item)
		}
	}
}
