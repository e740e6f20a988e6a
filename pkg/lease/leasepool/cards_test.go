package leasepool_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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

// Someone has deleted all items of a pool but its cards, and seeds the pool again with another
// layout. The cards have a higher revision than the new item, and are replaced even so: agents
// that start would otherwise make IDs with the layout of the old pool.
func TestSeedReplacesCardsOfADeletedPool(t *testing.T) {
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
	c, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.Default()})
	if err != nil {
		t.Fatal(err)
	}
	item, err := s.PoolItem(t.Context(), "orders")
	if err != nil || c.Pool.Revision != item.Revision {
		t.Fatalf("got revision %d, %v, want %d as reported", item.Revision, err, c.Pool.Revision)
	}
	for n := range protocol.Cards {
		if card, err := s.Card(t.Context(), "orders", n); err != nil || card.Revision != item.Revision || *card.Layout != protocol.LayoutOf(snowflake.Default()) {
			t.Errorf("card %d is %+v, %v, want a copy of %+v", n, card, err, item)
		}
	}
}

// A seed that cannot read the cards says that those of a deleted pool may be left, and that
// a raise replaces them: the reaper and a second seed do not.
func TestSeedSaysThatCardsMayBeLeft(t *testing.T) {
	s := fixture.NewCards(fixture.NewNetwork(0))
	for _, left := range []bool{false, true} {
		s.Network = fixture.NewNetwork(0)
		s.Fail(nil)
		if left {
			s.Fail(protocol.ErrAccess)
		}
		var log strings.Builder
		p := leasepool.Open(s, "orders")
		p.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "until you raise this pool"); got != left {
			t.Errorf("cards that cannot be read: %v, but the log is %q", left, log.String())
		}
	}
}

// A raise reports an error if a card cannot be replaced, and never raises the pool's
// revision so far that the pool's item becomes corrupt.
func TestRaiseOfAPoolWithForgedCards(t *testing.T) {
	t.Run("a revision that is a text", func(t *testing.T) {
		f, p, _ := audited(t, false)
		if c, err := p.Tend(t.Context()); err != nil || c.Pool.Verdict == nil {
			t.Fatal(c.Pool.Verdict, err)
		}
		f.setValue("orders#card#7", "0", "SET revision = :v", &types.AttributeValueMemberS{Value: "7"})
		if _, err := p.Raise(t.Context(), time.Time{}); err == nil || !strings.Contains(err.Error(), "orders#card#7") {
			t.Errorf("got %v, want an error that names the card", err)
		}
	})
	t.Run("the largest revision", func(t *testing.T) {
		_, p, s := audited(t, false)
		forged, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		forged.Revision = 1<<53 - 1
		if ok, err := s.(protocol.CardStore).WriteCard(t.Context(), protocol.WriteCard{Card: 7, Item: forged}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, err := p.Raise(t.Context(), time.Time{}); err == nil || !strings.Contains(err.Error(), "orders#card#7") {
			t.Errorf("got %v, want an error that names the card", err)
		}
		if _, err := s.PoolItem(t.Context(), "orders"); err != nil {
			t.Errorf("got %v, want the pool's item intact", err)
		}
	})
}
