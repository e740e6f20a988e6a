package lease

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// A claim compares the wall clock with the expiries of other holders. The wall clock is
// compared with the store's clock before, when the pool's item is read. Since then, it may
// have jumped ahead. The monotonic clock shows that.

// clocks reads the wall clock and then the monotonic clock, so that a pause between the two
// readings makes a later jump look larger, never smaller.
func (a *Agent) clocks() reading {
	wall := a.clock.Wall()
	return reading{mono: a.clock.Monotonic(), wall: wall}
}

// checkClock returns ErrClockSkew if the wall clock and the store's differ by too much. The
// request that the store answered was sent at the time sent. If the store sends no time,
// nothing is compared.
func (a *Agent) checkClock(sent reading, store time.Time) error {
	err := protocol.CheckSkew(sent.wall, a.clock.Wall(), store, a.cfg.timings().MaxSkew())
	if err == nil {
		a.compared = reading{}
		if latest := store.Add(time.Second); !store.IsZero() {
			a.compared = sent
			// The store's clock has whole seconds. Since small steps add up, this clock's lead
			// counts as part of a later jump.
			if sent.wall.After(latest) {
				a.compared.wall = latest
			}
		}
	}
	return err
}

// jumped reports whether the wall clock, which read wall just after the monotonic clock read
// mono, has jumped ahead since it was last compared with the store's. On a machine whose
// monotonic clock does not run during a suspend, it also reports a suspend.
func (a *Agent) jumped(wall time.Time, mono time.Duration) bool {
	c := a.compared
	return !c.wall.IsZero() && wall.Sub(c.wall)-(mono-c.mono) > a.cfg.timings().MaxSkew()
}

// compareAgain reads the pool's item only to compare the wall clock with the store's once
// more. The claim in progress keeps the item with which it began: if the pool has become
// smaller, the node ID must not be refused after the claim.
func (a *Agent) compareAgain(ctx context.Context) error {
	p, sent, err := a.readPool(ctx)
	if err == nil {
		err = a.checkClock(sent, p.ServerTime)
	}
	return err
}
