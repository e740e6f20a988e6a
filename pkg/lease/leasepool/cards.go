package leasepool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// publishLimit is the time limit for writing hint cards.
const publishLimit = 10 * time.Second

// publish copies the pool's item, as it was last read or written, to the hint cards that
// are older than the item. Only the pool's verbs write cards: agents act on a card
// without reading the item, and no task should be able to write data that all other tasks
// act on.
func (p *Pool) publish(ctx context.Context, item Item) error {
	return p.eachCard(func(s protocol.CardStore, n int) error {
		card, err := p.card(ctx, s, n)
		if err != nil || !protocol.Behind(item, card) {
			return err
		}
		applied, err := protocol.Retry(ctx, func(ctx context.Context) (bool, error) {
			return s.WriteCard(ctx, protocol.WriteCard{Card: n, Item: item})
		})
		if err == nil && !applied {
			err = p.replaced(ctx, s, n, item)
		}
		return err
	})
}

// replaced returns an error unless a card that refused a copy of item has a newer one.
// Reads of cards may be a second old, so it reads the card several times.
func (p *Pool) replaced(ctx context.Context, s protocol.CardStore, n int, item Item) error {
	for tries := 0; ; tries++ {
		card, err := p.card(ctx, s, n)
		switch {
		case err != nil || !protocol.Behind(item, card):
			return err
		case tries == 3:
			return fmt.Errorf("lease: hint card %d of pool %q refuses the pool's item, although its content is older: something other than Nodelease wrote its revision: delete the item %s#card#%d", n, p.Name, p.Name, n)
		}
		if err := protocol.Pause(ctx, protocol.Backoff(tries)); err != nil {
			return err
		}
	}
}

// card reads a hint card. It returns nil if the card is missing or has to be replaced.
func (p *Pool) card(ctx context.Context, s protocol.CardStore, n int) (*Item, error) {
	card, err := protocol.Retry(ctx, func(ctx context.Context) (*Item, error) { return s.Card(ctx, p.Name, n) })
	var corrupt *protocol.CorruptError
	if errors.As(err, &corrupt) || errors.Is(err, protocol.ErrItemFormat) {
		return nil, nil //nolint:nilnil // the write replaces it if it can
	}
	return card, err
}

// eachCard calls do concurrently for all hint cards, if the store supports them.
func (p *Pool) eachCard(do func(s protocol.CardStore, n int) error) error {
	s, ok := p.store.(protocol.CardStore)
	if !ok {
		return nil
	}
	var all sync.WaitGroup
	errs := make([]error, protocol.Cards)
	for n := range protocol.Cards {
		all.Go(func() { errs[n] = do(s, n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ahead returns by how much the newest card's revision exceeds the revision of item. A
// newer card was written by a faster verb, or is a copy of an item that no longer exists.
// In the latter case, this pool does not make IDs with the card's layout and widths.
func (p *Pool) ahead(ctx context.Context, item Item) (int64, error) {
	var cards [protocol.Cards]*Item
	err := p.eachCard(func(s protocol.CardStore, n int) (err error) {
		cards[n], err = p.card(ctx, s, n)
		return err
	})
	newest := item.Revision
	for n, card := range cards {
		if card != nil {
			newest = max(newest, card.Revision)
		}
		if card != nil && card.Revision > mostRevision {
			err = errors.Join(err, fmt.Errorf("lease: hint card %d of pool %q has the revision %d, which no pool reaches: something other than Nodelease wrote it: delete the item %s#card#%d", n, p.Name, card.Revision, p.Name, n))
		}
	}
	return newest - item.Revision, err
}

// mostRevision bounds the revision of a card or a node ID above which a raise puts the
// pool's item. It leaves the item room to change.
const mostRevision = 1 << 50

// tryPublish does what publish does, but only logs an error. It is used after changes for
// which outdated cards are acceptable: until the reaper's next run, each reader of an
// outdated card needs one more request.
func (p *Pool) tryPublish(ctx context.Context, item Item) {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	if err := p.publish(ctx, item); err != nil {
		p.logger().Warn("not all copies of the pool's item were written, so some starts read the item itself; the reaper's next run writes them", "pool", p.Name, "error", err)
	}
}

// publishNew is tryPublish for a pool that was just created.
//
// Invariant (S1): no card of an earlier pool with this name remains, whose own item someone has
// deleted. Agents would believe it, and make IDs with another layout than this pool's.
func (p *Pool) publishNew(ctx context.Context, c *Changes) error {
	one, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	ahead, err := p.ahead(one, c.Pool)
	if err != nil { // a card that cannot be read cannot be replaced either
		p.logger().Warn("not all copies of the pool's item could be read: if a pool with this name was deleted, starts may believe a copy of its item until you raise this pool, because no later seed replaces it", "pool", p.Name, "error", err)
	}
	if err != nil || ahead == 0 {
		p.tryPublish(ctx, c.Pool)
		return nil
	}
	if c.Pool, err = p.change(ctx, protocol.ForgetVerdict{Pool: p.Name, Behind: ahead}); err != nil {
		return err
	}
	return p.publish(ctx, c.Pool)
}
