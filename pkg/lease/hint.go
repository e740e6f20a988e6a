package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// readHint reads one of the pool's hint cards, in place of the pool's item; false where
// that has to be read. It is asked for at a start only, which a herd does all at once. sent
// is set to the wall clock before each attempt. An error is of a store that did not answer
// until ctx ended.
//
// Invariant: a card never takes back what this agent knows of its pool.
func (a *Agent) readHint(ctx context.Context, sent *time.Time) (p protocol.PoolItem, ok bool, err error) {
	s, cheap := a.cfg.Store.(protocol.CardStore)
	if !cheap {
		return p, false, nil
	}
	card, err := protocol.Retry(ctx, func(ctx context.Context) (*protocol.PoolItem, error) {
		*sent = a.clock.Wall()
		return asking(a, func() (*protocol.PoolItem, error) { return s.Card(ctx, a.cfg.Pool, rand.IntN(protocol.Cards)) })
	})
	if err != nil && ctx.Err() != nil {
		return p, false, err
	}
	if err != nil || card == nil || card.Revision < a.pool.Revision || !card.HintEnough() {
		return p, false, nil
	}
	return *card, true, nil
}

// verify reads the pool's item, in place of the card that was acted on so far or again.
func (a *Agent) verify(ctx context.Context) error {
	p, err := a.readPool(ctx)
	if err == nil {
		a.pool, a.hinted = p, false
	}
	return err
}
