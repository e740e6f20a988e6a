package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// openGroups opens the next group, unless someone else just did. A claimant that
// returns here is one of a herd, and opens twice as many each time: a fleet of any
// size has room after a few rounds, and a single task opens one.
//
// In a narrow pool the width follows the open groups in the background, as long as
// there is headroom. Without headroom, a claimant that finds no node ID at all widens
// first; the added node IDs can be claimed when the new width begins.
//
// A role that may not write the pool's item makes do with the groups that are open:
// the reaper function and operators open more.
func (a *Agent) openGroups(ctx context.Context, s *search, full bool) error {
	if a.denied {
		return nil
	}
	err := a.openMore(ctx, s, full)
	if errors.Is(err, ErrAccess) {
		a.mayNot("open a group", err)
		return nil
	}
	return err
}

// mayNot notes, once, that this role may not write the pool's item.
func (a *Agent) mayNot(do string, err error) {
	a.denied = true
	a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Reason: protocol.Reason(err), Err: fmt.Errorf(
		"this role may not write the pool's item, and so not %s: the agent goes on with what there is, and the reaper function or nodelease resize does the rest: %w", do, err)})
}

// openMore is openGroups for a role that may write the pool's item.
func (a *Agent) openMore(ctx context.Context, s *search, full bool) error {
	_, before := a.pool.GroupsOpen()
	var err error
	if a.pool, err = a.readPool(ctx); err != nil {
		return err
	}
	if before+1 >= a.pool.UsableGroups() {
		if !full {
			return nil
		}
		if _, err := leasepool.Open(a.cfg.Store, a.cfg.Pool).WidenUnlessOpen(ctx); err != nil {
			return err
		}
		if a.pool, err = a.readPool(ctx); err != nil || before+1 >= a.pool.UsableGroups() {
			return err
		}
	}
	if _, last := a.pool.GroupsOpen(); last == before {
		w := protocol.OpenGroups{Pool: a.cfg.Pool, From: a.pool.OpenGroups, To: min(last+1+s.step(), a.pool.UsableGroups())}
		res, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) { return a.cfg.Store.WritePool(ctx, w) })
		if err != nil {
			return err
		}
		if res.Pool != nil {
			a.pool = *res.Pool
		}
		if res.Applied && a.pool.Narrow() && a.pool.Bits() < protocol.BitsFor(a.pool.OpenGroups) {
			a.widen()
		}
	}
	s.opened(before + 1)
	return nil
}

// widen lets the width of node IDs follow the groups that this agent has opened,
// in the background. It ends with the agent; the next one that opens a group goes on.
func (a *Agent) widen() {
	a.background.Go(func() {
		_, err := leasepool.Open(a.cfg.Store, a.cfg.Pool).WidenUnlessOpen(a.life)
		if err != nil && a.life.Err() == nil {
			a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
		}
	})
}
