package lease

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// A claim compares the wall clock with the expiries of other holders, and they compare theirs
// with the expiry that it requests. The wall clock is compared with the store's clock before,
// when the pool's item is read. Since then, it may have jumped ahead or back. The monotonic
// clock shows that.

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
	mono := a.clock.Monotonic() // read first, so that a pause makes a later step back look larger
	wall := a.clock.Wall()
	err := protocol.CheckSkew(sent.wall, wall, store, a.cfg.timings().MaxSkew())
	if err == nil {
		a.compared, a.answered = reading{}, reading{}
		if latest := store.Add(time.Second); !store.IsZero() {
			a.compared = sent
			a.answered = reading{mono: mono, wall: protocol.Latest(wall, store)} // a lag counts as part of a later step back
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
// mono, has jumped ahead or back since it was last compared with the store's. On a machine
// whose monotonic clock does not run during a suspend, it also reports a suspend.
func (a *Agent) jumped(wall time.Time, mono time.Duration) bool {
	ahead := wall.Sub(a.compared.wall) - (mono - a.compared.mono)
	behind := a.answered.wall.Sub(wall) + (mono - a.answered.mono)
	return !a.compared.wall.IsZero() && max(ahead, behind) > a.cfg.timings().MaxSkew()
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
