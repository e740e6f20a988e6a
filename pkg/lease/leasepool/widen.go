package leasepool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// widenSlack is how much later than necessary a new width begins. The time doubles with
// each failed try, up to widenMost.
const (
	widenSlack = 3 * time.Second
	widenMost  = time.Hour
)

// Widen makes the node IDs of a narrow pool as wide as its open groups need, while the
// fleet keeps making IDs, and then seeds the node IDs that now fit. It costs one write
// for each existing and each new node ID. The new width begins at least 20 seconds after
// the call, once all milliseconds that were reserved before the change have passed.
//
// Any number of processes may call Widen at once. A run that does not finish blocks
// nobody, and the next run continues it. A corrupt item stops Widen, since the item's
// holder could not be told about the new width. Widen does not change a pool that is not
// narrow.
func (p *Pool) Widen(ctx context.Context) (Changes, error) {
	if err := p.absent(); err != nil {
		return Changes{}, err
	}
	c, err := p.widen(ctx, true)
	if err == nil {
		p.tryPublish(ctx, c.Pool)
	}
	return c, err
}

// widenUnlessOpen is [siblings.WidenUnlessOpen].
func widenUnlessOpen(ctx context.Context, s protocol.Store, pool string) error {
	_, err := Open(s, pool).widen(ctx, false)
	return err
}

// widen runs the steps of [protocol.Widener]. A try is always finished with the item in
// which it was found open, never with an item that was read earlier.
func (p *Pool) widen(ctx context.Context, join bool) (c Changes, err error) {
	if c.Pool, err = p.itemInTime(ctx); err != nil {
		return c, err
	}
	for slack := widenSlack; c.Pool.Narrow(); slack = min(2*slack, widenMost) {
		if c.Pool.Widening.State == protocol.WidenOpen && !join {
			return c, nil
		}
		if c.Pool.Widening.State != protocol.WidenOpen {
			if _, wider := c.Pool.NextBits(); !wider {
				break
			}
			mine, err := p.beginWiden(ctx, &c, slack)
			if err != nil || !mine && !join {
				return c, err
			}
		}
		if w := protocol.NewWidener(c.Pool); w != nil {
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

// beginWiden opens a try, or finds that another process has opened one. In either case
// c.Pool becomes the item in the answer, since an item that was read earlier may lack
// node IDs.
func (p *Pool) beginWiden(ctx context.Context, c *Changes, slack time.Duration) (mine bool, err error) {
	now := time.Now()
	var leases []protocol.Lease
	err = p.sweepNodeIDs(ctx, c.Pool, &c.Corrupt, func(_ context.Context, s *sweep, _ int, g protocol.Group) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		leases = append(leases, g.Leases...)
		return nil
	})
	if err == nil && len(c.Corrupt) > 0 {
		err = p.corrupt(c)
	}
	if err != nil {
		return false, err
	}
	// Invariant: the width never changes at a time that readers do not accept. One node ID
	// that is reserved for years must not make the pool's item corrupt.
	for _, l := range leases {
		if l.ReservedUntil.After(now.Add(2 * farFuture)) {
			return false, fmt.Errorf("lease: pool %q cannot change its width: node %d is reserved until %s, and the width changes only after all reservations: use another pool", p.Name, l.NodeID, protocol.Stamp(l.ReservedUntil))
		}
	}
	begin := protocol.NextTry(c.Pool, leases, now, slack)
	if c.Pool, err = p.change(ctx, begin); err != nil {
		return false, err
	}
	return begin.Opened(c.Pool), nil
}

// corrupt returns the error of a widening that cannot continue because of corrupt items:
// the holder of a corrupt item could not be told about the widening, and the holder's
// reservation is unknown.
func (p *Pool) corrupt(c *Changes) error {
	return fmt.Errorf("lease: pool %q cannot change its width while items are corrupt (%v): repair them, or use another pool", p.Name, c.Corrupt)
}

// finishWiden marks every node ID and then commits the try, or else voids the try.
func (p *Pool) finishWiden(ctx context.Context, c *Changes, w *protocol.Widener) error {
	item := w.Pool()
	err := p.sweepNodeIDs(ctx, item, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		s.mu.Lock()
		for _, l := range g.Leases {
			w.Found(l)
		}
		s.mu.Unlock()
		for node := n * protocol.GroupSize; node < min((n+1)*protocol.GroupSize, item.ExistBelow); node++ {
			if err := s.mark(ctx, c, w, node); err != nil {
				return err
			}
		}
		return nil
	})
	commit, all := w.Commit()
	if errors.Is(err, protocol.ErrSuperseded) {
		now, unread := p.item(ctx)
		if unread != nil || now.Widening != item.Widening {
			return unread
		}
		err = fmt.Errorf("lease: pool %q cannot change its width: %w, and the pool has no such try: something other than Nodelease wrote it: use another pool", p.Name, err)
	}
	switch {
	case err == nil && all:
		_, err = p.change(ctx, commit)
		return err
	case err == nil:
		err = p.corrupt(c)
	case errors.Is(err, protocol.ErrReserved):
		err = nil // the next try begins later
	}
	if _, void := p.change(ctx, w.Void()); void != nil && err == nil {
		err = void
	}
	return err
}

// mark marks one node ID, unless it already has the mark.
func (s *sweep) mark(ctx context.Context, c *Changes, w *protocol.Widener, node int) error {
	s.mu.Lock()
	left, m := w.Left(node), w.Mark(node, time.Now())
	s.mu.Unlock()
	if !left {
		return nil
	}
	if err := s.pace.wait(ctx); err != nil {
		return err
	}
	res, err := s.write(ctx, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.corrupt.note(err) {
		return nil // the node ID stays unmarked, so nothing is committed
	}
	if err != nil {
		return err
	}
	if res.Applied {
		c.Marked++
	}
	if err := w.Heard(m, res); err != nil {
		return fmt.Errorf("lease: node %d of pool %q: %w", node, s.Name, err)
	}
	return nil
}

// grow adds the node IDs up to the given size to a narrow pool, as far as its width has
// room for them, and seeds the missing ones. Only the commit of a try makes more room. A
// claimant of a node ID that was added after a commit must have read the new width, and
// stamps nothing before the new width begins.
func (p *Pool) grow(ctx context.Context, c *Changes, size int) error {
	if !c.Pool.Narrow() {
		return nil
	}
	for {
		w, some := protocol.Missing(c.Pool, size)
		if !some {
			break
		}
		if c.Pool.Widening.State == protocol.WidenOpen {
			return fmt.Errorf("lease: pool %q gets no node IDs while its width changes: run it again", p.Name)
		}
		// Invariant (liveness): an item that was deleted ends the loop, since no write changes it.
		item, err := p.change(ctx, w)
		if err != nil {
			return err
		}
		c.Pool = item
	}
	return p.settle(ctx, c, protocol.UsableGroups(c.Pool), time.Now(), nil)
}
