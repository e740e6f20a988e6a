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

// exchange has the clocks just before a request was sent and just after its answer.
type exchange struct{ sent, answered reading }

// clocks reads the wall clock and then the monotonic clock, so that a pause between the two
// readings makes a later jump ahead look larger, never smaller.
func (a *Agent) clocks() reading {
	wall := a.clock.Wall()
	return reading{mono: a.clock.Monotonic(), wall: wall}
}

// clocksAfter reads the monotonic clock and then the wall clock, so that a pause between the
// two readings makes a later jump back look larger, never smaller.
func (a *Agent) clocksAfter() reading {
	mono := a.clock.Monotonic()
	return reading{mono: mono, wall: a.clock.Wall()}
}

// checkClock returns ErrClockSkew if the wall clock and the store's differ by too much. The
// clocks were read at the exchange in which the store sent its time. If the store sends no
// time, nothing is compared.
func (a *Agent) checkClock(at exchange, store time.Time) error {
	err := protocol.CheckSkew(at.sent.wall, at.answered.wall, store, a.cfg.timings().MaxSkew())
	if err == nil {
		a.compared = exchange{}
		if latest := store.Add(time.Second); !store.IsZero() {
			a.compared = at
			// The store's clock has whole seconds. Since small steps add up, this clock's lead
			// counts as part of a later jump ahead, and its lag as part of a later jump back.
			if at.sent.wall.After(latest) {
				a.compared.sent.wall = latest
			}
			a.compared.answered.wall = protocol.Latest(at.answered.wall, store)
		}
	}
	return err
}

// jumped reports whether the wall clock, which read wall just after the monotonic clock read
// mono, has jumped ahead or back since it was last compared with the store's. On a machine
// whose monotonic clock does not run during a suspend, it also reports a suspend.
func (a *Agent) jumped(wall time.Time, mono time.Duration) bool {
	sent, answered := a.compared.sent, a.compared.answered
	ahead := wall.Sub(sent.wall) - (mono - sent.mono)
	behind := answered.wall.Sub(wall) + (mono - answered.mono)
	return !sent.wall.IsZero() && max(ahead, behind) > a.cfg.timings().MaxSkew()
}

// compareAgain reads the pool's item only to compare the wall clock with the store's once
// more. The claim in progress keeps the item with which it began: if the pool has become
// smaller, the node ID must not be refused after the claim.
func (a *Agent) compareAgain(ctx context.Context) error {
	p, at, err := a.readPool(ctx)
	if err == nil {
		p, at, _, err = a.soon(ctx, p, at, false)
	}
	if err == nil {
		err = a.checkClock(at, p.ServerTime)
	}
	return err
}
