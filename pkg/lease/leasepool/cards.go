package leasepool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// publishLimit is how long hint cards are waited for.
const publishLimit = 10 * time.Second

// publish copies the pool's item, as it was read or written, to the hint cards that are
// behind it. Only the pool's verbs do: a card lets agents act without asking, and no task
// may write what all others act on.
func (p *Pool) publish(ctx context.Context, item *Item) error {
	s, ok := p.store.(protocol.CardStore)
	if !ok {
		return nil
	}
	var cards [protocol.Cards]*Item
	errs := eachCard(func(n int) (err error) {
		cards[n], err = protocol.Retry(ctx, func(ctx context.Context) (*Item, error) { return s.Card(ctx, p.Name, n) })
		var corrupt *protocol.CorruptError
		if errors.As(err, &corrupt) || errors.Is(err, protocol.ErrItemFormat) {
			cards[n], err = nil, nil // the write replaces it if it can
		}
		return err
	})
	if err := p.overtake(ctx, item, cards[:]); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, eachCard(func(n int) error {
		if errs[n] != nil || !item.Behind(cards[n]) {
			return nil
		}
		_, err := protocol.Retry(ctx, func(ctx context.Context) (bool, error) {
			return s.WriteCard(ctx, protocol.WriteCard{Card: n, Item: *item})
		})
		return err
	})...)...)
}

// eachCard does something with all cards at once.
func eachCard(do func(n int) error) []error {
	var all sync.WaitGroup
	errs := make([]error, protocol.Cards)
	for n := range protocol.Cards {
		all.Go(func() { errs[n] = do(n) })
	}
	all.Wait()
	return errs
}

// overtake raises the pool's revision above that of all cards.
//
// Invariant: no card stays that is ahead of the pool's item. It is a copy of an item that is
// gone: the table's items, or the pool's, are older or others than when the card was written,
// and its layout and widths may be too. An item that is read after the card is not older.
func (p *Pool) overtake(ctx context.Context, item *Item, cards []*Item) (err error) {
	newest := item.Revision
	for _, card := range cards {
		if card != nil {
			newest = max(newest, card.Revision)
		}
	}
	if newest == item.Revision {
		return nil
	}
	if *item, err = p.item(ctx); err == nil && item.Revision < newest {
		*item, err = p.change(ctx, protocol.ForgetVerdict{Pool: p.Name, Behind: newest - item.Revision})
	}
	return err
}

// tryPublish is publish where nothing hangs on it: a card that stays behind costs its
// readers a request, until the reaper's next run.
func (p *Pool) tryPublish(ctx context.Context, item *Item) {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	if err := p.publish(ctx, item); err != nil {
		p.logger().Warn("not all copies of the pool's item were written, so some starts read the item itself; the reaper's next run writes them", "pool", p.Name, "error", err)
	}
}
