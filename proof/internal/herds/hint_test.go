package herds_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// carded is a table with hint cards. It counts the requests that agents send when they
// start.
type carded struct {
	*fixture.Cards
	items, asked atomic.Int64
}

func (c *carded) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	c.items.Add(1)
	return c.Cards.PoolItem(ctx, pool)
}

func (c *carded) Check(context.Context) error {
	c.asked.Add(1)
	return nil
}

// newCarded returns a store with the pool "orders", after a run of the reaper function.
func newCarded(t *testing.T, spec leasepool.Spec) (*carded, *leasepool.Pool) {
	t.Helper()
	s := &carded{Cards: fixture.NewCards(fixture.NewNetwork(0))}
	pool := leasepool.Open(s, "orders")
	if _, err := pool.Seed(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.forget()
	return s, pool
}

func (c *carded) forget() { c.items.Store(0); c.asked.Store(0) }

func (c *carded) spent() [2]int64 { return [2]int64{c.items.Load(), c.asked.Load()} }

// A start reads one card and claims. Without a card, it reads the pool's item. If there
// is no valid verdict on the table, it also checks the table.
func TestStartByCard(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 64})
		start := func(items, asked int64, why string) {
			t.Helper()
			s.forget()
			before := s.Reads()
			a := fixture.Start(t, fixture.Config(s))
			if got := s.spent(); got != [2]int64{items, asked} || s.Reads() != before+1 {
				t.Errorf("%s: %d reads of the pool's item, asked about the table %d times, %d cards; want %d, %d, 1", why, got[0], got[1], s.Reads()-before, items, asked)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		start(0, 0, "by a card")
		fixture.Wait(time.Hour + time.Millisecond)
		start(0, 1, "an hour after the reaper's last run")
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(0, 0, "after the next run")
		if _, err := pool.Raise(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		start(0, 1, "after a raise")
		fresh := protocol.PoolItem{Pool: "orders", Format: protocol.ItemFormat, Size: 64, OpenGroups: 1, Revision: 1}
		open := fresh
		open.Widening = protocol.Widening{State: protocol.WidenOpen, From: time.Now().Add(time.Hour)} // so far ahead that it limits no reservation
		s.Show(&open)
		start(1, 1, "while the width changes")
		s.Show(nil)
		s.Fail(lease.ErrAccess)
		start(1, 1, "where cards may not be read")
		s.Fail(&lease.CorruptError{Pool: "orders", NodeID: -1, Err: errors.New("test")})
		start(1, 1, "with a corrupt card")
	})
}

// An old card only costs requests: if all node IDs that exist according to the card are
// taken, a claimant reads the pool's item before it gives up.
func TestCardOfLongAgo(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 1})
		old, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		fixture.Start(t, fixture.Config(s))
		if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 2}); err != nil {
			t.Fatal(err)
		}
		s.Show(&old)
		if a := fixture.Start(t, fixture.Config(s)); a.NodeID() != 1 {
			t.Errorf("got node ID %d, want the one that the card does not know", a.NodeID())
		}
		if _, err := lease.Start(t.Context(), fixture.Config(s)); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Errorf("got %v, want ErrPoolExhausted", err)
		}
	})
}

// When an agent claims another node ID, it does not use a card that is older than the
// pool's item as the agent last read it.
func TestNewerThanItsCard(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 4})
		old, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 8}); err != nil {
			t.Fatal(err)
		}
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		a := fixture.Start(t, cfg)
		s.Show(&old)
		s.forget()
		fixture.Take(t, s.Network, a)
		fixture.Wait(10 * time.Second)
		if _, err := a.Lease(); err != nil || s.items.Load() == 0 {
			t.Errorf("got %v after %d reads of the pool's item, want one", err, s.items.Load())
		}
	})
}

// An agent uses a card's layout only once no operator can change the layout any longer.
func TestLayoutOfACard(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 8, Layout: snowflake.Discord()})
		old, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.SetLayout(t.Context(), snowflake.Wide16()); err != nil {
			t.Fatal(err)
		}
		s.Show(&old)
		layout := func(items int64) {
			t.Helper()
			s.forget()
			g, err := snowflake.New(fixture.Start(t, fixture.Config(s)))
			if err != nil || g.Layout().String() != snowflake.Wide16().String() || s.items.Load() != items {
				t.Errorf("got %v, %v after %d reads of the pool's item, want wide16 after %d", g.Layout(), err, s.items.Load(), items)
			}
		}
		layout(1)
		s.Show(nil)
		if _, err := pool.Reap(t.Context()); err != nil { // sees the claim
			t.Fatal(err)
		}
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		layout(0)
	})
}

// Whenever one of the pool's verbs changes the pool, it writes the cards at once. Nothing
// else writes cards.
func TestWhoWritesCards(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 2048})
		current := func(what string) {
			t.Helper()
			item, err := s.PoolItem(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			for n := range protocol.Cards {
				if card, err := s.Card(t.Context(), "orders", n); err != nil || protocol.Behind(item, card) || card.Revision != item.Revision {
					t.Errorf("after %s card %d is %+v, %v, want revision %d", what, n, card, err, item.Revision)
				}
			}
		}
		current("a seed")
		if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 3072}); err != nil {
			t.Fatal(err)
		}
		current("a resize")
		if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 3072, Expect: 600}); err != nil {
			t.Fatal(err)
		}
		current("a seed for more")
		if _, err := pool.SetLayout(t.Context(), snowflake.Wide16()); err != nil {
			t.Fatal(err)
		}
		current("a layout")
		if _, err := pool.Raise(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		current("a raise")
		before, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		_, last := before.GroupsOpen()
		var all sync.WaitGroup
		for range (last + 1) * 256 {
			all.Go(func() { fixture.Start(t, fixture.Config(s)) })
		}
		all.Wait()
		after, err := s.PoolItem(t.Context(), "orders")
		if err != nil || after.OpenGroups <= before.OpenGroups {
			t.Fatalf("got %+v, %v, want that agents opened groups", after, err)
		}
		if card, err := s.Card(t.Context(), "orders", 0); err != nil || card.Revision != before.Revision {
			t.Errorf("agents wrote a card: %+v, %v", card, err)
		}
		if _, err := pool.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		current("a run of the reaper function")
	})
}

// lateCard is a table whose clock is behind, and which answers reads of cards only after
// a while.
type lateCard struct {
	*carded
	until time.Time
}

func (c *lateCard) Card(ctx context.Context, pool string, n int) (*protocol.PoolItem, error) {
	if time.Now().Before(c.until) {
		return nil, context.DeadlineExceeded
	}
	p, err := c.carded.Card(ctx, pool, n)
	if p != nil {
		p.ServerTime = time.Now().Add(-10 * time.Second).Truncate(time.Second)
	}
	return p, err
}

// Even if the read of a card is answered slowly, the agent notices that its clock is
// wrong.
func TestClockSkewByACard(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, _ := newCarded(t, leasepool.Spec{Size: 8})
		late := &lateCard{s, time.Now().Add(20 * time.Second)}
		if _, err := lease.Start(t.Context(), fixture.Config(late)); !errors.Is(err, lease.ErrClockSkew) || s.items.Load() > 0 {
			t.Errorf("got %v after %d reads of the pool's item, want ErrClockSkew by the card", err, s.items.Load())
		}
	})
}

// slowCards is a table whose first answer with a card takes long. If then is set, it is called
// before the second one.
type slowCards struct {
	*carded
	then  func()
	reads atomic.Int64
}

func (c *slowCards) Card(ctx context.Context, pool string, n int) (*protocol.PoolItem, error) {
	switch reads := c.reads.Add(1); {
	case reads == 1:
		time.Sleep(3 * time.Second) // virtual
	case c.then != nil:
		c.then()
	}
	p, err := c.carded.Card(ctx, pool, n)
	if p != nil {
		p.ServerTime = time.Now()
	}
	return p, err
}

// After a slow first answer, the clock is compared by another card. So a large fleet that
// starts on slow connections does not read the pool's item either.
func TestSlowCardIsReadAgain(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, _ := newCarded(t, leasepool.Spec{Size: 8})
		slow := &slowCards{carded: s}
		fixture.Start(t, fixture.Config(slow))
		if cards, items := slow.reads.Load(), s.items.Load(); cards != 2 || items > 0 {
			t.Errorf("got %d reads of cards and %d of the pool's item, want 2 and none", cards, items)
		}
	})
}

// The card that is read after a slow first answer is older than the first one. The agent does
// not go back to it, and reads the pool's item.
func TestSlowCardIsNotReplacedByAnOlderOne(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 8})
		old, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 16}); err != nil {
			t.Fatal(err)
		}
		s.forget()
		fixture.Start(t, fixture.Config(&slowCards{carded: s, then: func() { s.Show(&old) }}))
		if items := s.items.Load(); items != 1 {
			t.Errorf("got %d reads of the pool's item, want 1", items)
		}
	})
}

// slowItem is a table whose first answer with the pool's item takes long. Meanwhile, its cards
// become readable, and show an old item.
type slowItem struct {
	*carded
	old protocol.PoolItem
}

func (c *slowItem) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := c.carded.PoolItem(ctx, pool)
	if c.items.Load() == 1 {
		time.Sleep(3 * time.Second) // virtual
		c.Show(&c.old)
		c.Fail(nil)
	}
	p.ServerTime = time.Now()
	return p, err
}

// After a slow answer with the pool's item, the clock is compared by the item once more, and
// not by a card, which may be older than what the agent has read.
func TestSlowItemIsReadAgain(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, pool := newCarded(t, leasepool.Spec{Size: 8})
		old, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Resize(t.Context(), leasepool.Spec{Size: 16}); err != nil {
			t.Fatal(err)
		}
		s.forget()
		s.Fail(lease.ErrAccess)
		before := s.Reads()
		fixture.Start(t, fixture.Config(&slowItem{s, old}))
		if cards, items := s.Reads()-before, s.items.Load(); cards != 1 || items != 2 {
			t.Errorf("got %d reads of cards and %d of the pool's item, want 1 and 2", cards, items)
		}
	})
}
