package leasepool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

const (
	// widenSlack is how much later than it must be a new width begins. It doubles
	// with each try that comes to nothing.
	widenSlack = 3 * time.Second
	// longestAtLeast is taken for what a holder reserves where none is to be seen.
	longestAtLeast = protocol.DefaultTTL + protocol.DefaultTTL/10
)

// Widen makes the node IDs of a narrow pool as wide as its open groups need, if
// they are not, while the fleet goes on making IDs; and then seeds the numbers
// that have come to fit. It costs one write for each number there is and for each
// new one. The new width begins some 20 seconds later, or more: when what is
// reserved by then has passed.
//
// Any process may call it, and any number of them at once; an unfinished run is
// gone on with by the next, and hinders nobody meanwhile. A corrupt item stops it,
// for its holder could not be told. A pool that is not narrow is left as it is.
func (p *Pool) Widen(ctx context.Context) (Changes, error) { return p.widen(ctx, true) }

// WidenUnlessOpen is Widen for a herd: who finds that someone else has begun
// leaves the work to them.
func (p *Pool) WidenUnlessOpen(ctx context.Context) (Changes, error) { return p.widen(ctx, false) }

func (p *Pool) widen(ctx context.Context, join bool) (c Changes, err error) {
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	for slack := widenSlack; c.Pool.Narrow(); slack *= 2 {
		w := c.Pool.Widening
		if w.State == protocol.WidenOpen && !join {
			return c, nil
		}
		if w.State != protocol.WidenOpen && c.Pool.Bits() >= protocol.BitsFor(c.Pool.OpenGroups) {
			break
		}
		if w.State != protocol.WidenOpen {
			var mine bool
			if w, mine, err = p.beginWiden(ctx, &c, slack); err != nil || !mine && !join {
				return c, err
			}
		}
		if w.State == protocol.WidenOpen {
			if err := p.finishWiden(ctx, &c, w); err != nil {
				return c, err
			}
		}
		if c.Pool, err = p.item(ctx); err != nil {
			return c, err
		}
	}
	return c, p.grow(ctx, &c, c.Pool.Size)
}

// beginWiden opens a try, or finds that someone else has.
func (p *Pool) beginWiden(ctx context.Context, c *Changes, slack time.Duration) (w protocol.Widening, mine bool, err error) {
	now := time.Now()
	ahead, last := longestAtLeast, now
	err = p.sweepNumbers(ctx, c.Pool, &c.Corrupt, func(_ context.Context, s *sweep, _ int, g protocol.Group) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range g.Leases {
			last = protocol.Latest(last, l.ReservedUntil)
			if l.Holder != "" { // its next renewals reserve that much, up to half a lease later
				ahead = max(ahead, l.ReservedUntil.Sub(now)+l.TTL/2)
			}
		}
		return nil
	})
	if err == nil && len(c.Corrupt) > 0 {
		err = p.corrupt(c)
	}
	if err != nil {
		return w, false, err
	}
	// Before E all numbers must be marked, and no holder may have come to it.
	marking := 2 * time.Duration(c.Pool.Numbers) * time.Second / writesPerSecond
	from := protocol.Latest(protocol.Latest(now.Add(ahead), last), c.Pool.Changed()).Add(marking + slack)
	begin := protocol.BeginWiden{Pool: p.Name, Try: c.Pool.Widening.Try + 1, Seen: c.Pool.Widening.State, From: from, Bits: protocol.BitsFor(c.Pool.OpenGroups)}
	w, err = p.writeWidening(ctx, begin)
	// Not by the answer's Applied, which may be of a request that was repeated.
	return w, w == protocol.Widening{Try: begin.Try, From: protocol.Trunc(from), Bits: begin.Bits, State: protocol.WidenOpen}, err
}

// corrupt says why a widening cannot go on: the holder of a corrupt item could not
// be told, and nobody knows what is reserved.
func (p *Pool) corrupt(c *Changes) error {
	return fmt.Errorf("lease: pool %q cannot change its width while items are corrupt (%v): repair them, or use another pool", p.Name, c.Corrupt)
}

// writeWidening does a write of the pool's item, and gives the try that stands there then.
func (p *Pool) writeWidening(ctx context.Context, w protocol.PoolWrite) (protocol.Widening, error) {
	res, err := p.writePool(ctx, w)
	if err != nil || res.Pool == nil {
		return protocol.Widening{}, err
	}
	return res.Pool.Widening, nil
}

var (
	errReserved   = errors.New("a number is reserved beyond the beginning of the new width")
	errSuperseded = errors.New("a newer try has begun")
)

// finishWiden marks every number and commits the try, or makes it void.
func (p *Pool) finishWiden(ctx context.Context, c *Changes, w protocol.Widening) error {
	// A number of the last width may not be seeded yet, and is nobody's before that.
	floor := protocol.Latest(time.Now(), c.Pool.Changed())
	err := p.sweepNumbers(ctx, c.Pool, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		marked := map[int]bool{}
		for _, l := range g.Leases {
			marked[l.NodeID] = l.Layout == w.Try
		}
		for node := max(n*protocol.GroupSize, c.Pool.ReservedLow); node < min((n+1)*protocol.GroupSize, c.Pool.Numbers); node++ {
			if marked[node] {
				continue
			}
			if err := s.mark(ctx, c, protocol.Mark{Key: protocol.Key{Pool: p.Name, NodeID: node}, Try: w.Try, From: w.From, Floor: floor}); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errSuperseded):
		return nil
	case err == nil && len(c.Corrupt) == 0: // all have been seen marked
		_, err = p.writeWidening(ctx, protocol.CommitWiden{Pool: p.Name, Try: w.Try, From: w.From, Bits: w.Bits})
		return err
	case err == nil:
		err = p.corrupt(c)
	case errors.Is(err, errReserved):
		err = nil // the next try begins later
	}
	if _, void := p.writeWidening(ctx, protocol.VoidWiden{Pool: p.Name, Try: w.Try}); void != nil && err == nil {
		err = void
	}
	return err
}

// mark marks one number.
func (s *sweep) mark(ctx context.Context, c *Changes, w protocol.Mark) error {
	if err := s.pace.wait(ctx); err != nil {
		return err
	}
	res, err := s.write(ctx, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.corrupt.note(err):
		return nil
	case err != nil:
		return err
	case res.Applied:
		c.Marked++
		return nil
	case res.Lease == nil:
		return fmt.Errorf("lease: node %d of pool %q vanished while it was marked", w.NodeID, w.Pool)
	case res.Lease.Layout == w.Try: // by someone else, or by a request whose answer was lost
		return nil
	case res.Lease.Layout > w.Try:
		return errSuperseded
	}
	return errReserved
}

// grow lets a narrow pool have the numbers of a size, as far as its width has room
// for them, and seeds those that are missing. Only after the commit does the width
// have room for more, and whoever claims such a number must know of it and stamps
// nothing before.
func (p *Pool) grow(ctx context.Context, c *Changes, size int) error {
	if !c.Pool.Narrow() {
		return nil
	}
	for {
		to := min(size, 1<<c.Pool.Bits())
		if to <= c.Pool.Numbers {
			break
		}
		if c.Pool.Widening.State == protocol.WidenOpen {
			return fmt.Errorf("lease: pool %q gets no numbers while its width changes: run it again", p.Name)
		}
		w := protocol.AddNumbers{Pool: p.Name, From: c.Pool.Numbers, To: to, Try: c.Pool.Widening.Try}
		res, err := p.writePool(ctx, w)
		if err != nil {
			return err
		}
		if res.Pool != nil {
			c.Pool = *res.Pool
		}
	}
	return p.settle(ctx, c, c.Pool.UsableGroups(), time.Now())
}
