package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// readHint reads one of the pool's hint cards in place of the pool's item; ok is false where
// the item has to be read. Only a start calls it, since herds start at the same moment. sent
// is set to the wall clock before each attempt. It fails only if the store did not answer
// before ctx ended.
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

// verify reads the pool's item, which replaces the card that was used so far.
func (a *Agent) verify(ctx context.Context) error {
	p, err := a.readPool(ctx)
	if err == nil {
		a.pool, a.hinted = p, false
	}
	return err
}
