package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Only Start, and later the renewal loop, writes a.pool. If the pool is never widened, an
// agent reads the pool's item only once, at its start.

// readPool reads the pool's item, with retries, for an agent without a node ID. It also
// returns the clocks at the request that was answered.
func (a *Agent) readPool(ctx context.Context) (p protocol.PoolItem, at exchange, err error) {
	p, err = protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) {
		return timed(a, &at, func() (protocol.PoolItem, error) { return a.cfg.Store.PoolItem(ctx, a.cfg.Pool) })
	})
	if err == nil {
		a.layout.learn(p)
	}
	return p, at, err
}

// timed is asking for a request whose answer has the store's time; at is set to the clocks.
//
// Invariant: the clocks are read before any other request is sent, such as one that checks
// the table. Otherwise a clock that is behind by less than that took would pass (S2).
func timed[T any](a *Agent, at *exchange, send func() (T, error)) (T, error) {
	at.sent = a.clocks()
	v, err := asking(a, send)
	at.answered = a.clocksAfter()
	return v, err
}

// readHint reads one of the pool's hint cards in place of the pool's item; ok is false if
// the item has to be read. Hint cards are used only at a start, since only then does a
// herd read the item. It also returns the clocks at the request, and an error only if the
// store did not answer before ctx ended.
//
// Invariant: if this agent has already read the item, no older card is used.
func (a *Agent) readHint(ctx context.Context) (p protocol.PoolItem, at exchange, ok bool, err error) {
	s, cheap := a.cfg.Store.(protocol.CardStore)
	if !cheap {
		return p, at, false, nil
	}
	card, err := protocol.Retry(ctx, func(ctx context.Context) (*protocol.PoolItem, error) {
		return timed(a, &at, func() (*protocol.PoolItem, error) { return s.Card(ctx, a.cfg.Pool, rand.IntN(protocol.Cards)) })
	})
	if err != nil && ctx.Err() != nil {
		return p, at, false, err
	}
	if err != nil || card == nil || card.Revision < a.pool.Revision || !protocol.HintEnough(*card) {
		return p, at, false, nil
	}
	return *card, at, true, nil
}

// readEither reads a hint card, or the pool's item if there is no usable card.
func (a *Agent) readEither(ctx context.Context) (p protocol.PoolItem, at exchange, hinted bool, err error) {
	p, at, hinted, err = a.readHint(ctx)
	if !hinted && err == nil {
		p, at, err = a.readPool(ctx)
	}
	return p, at, hinted, err
}

// soon returns p, which was read at the exchange at, or reads it once more if its answer took
// long, as where a connection had to be made. hinted reports whether p is a card.
//
// Invariant: the clock is not compared by a first answer that took long, because it may be off
// by as much more as the answer took (S2). And no older card replaces what this agent has read.
func (a *Agent) soon(ctx context.Context, p protocol.PoolItem, at exchange, hinted bool) (protocol.PoolItem, exchange, bool, error) {
	if took := at.answered.mono - at.sent.mono; took <= a.cfg.timings().MaxSkew() || p.ServerTime.IsZero() {
		return p, at, hinted, nil
	}
	if hinted {
		a.pool, a.hinted = p, true // so that readHint uses no older card
		return a.readEither(ctx)
	}
	p, at, err := a.readPool(ctx)
	return p, at, false, err
}

// verify reads the pool's item and uses it in place of the card that was used so far.
func (a *Agent) verify(ctx context.Context) error {
	p, _, err := a.readPool(ctx)
	if err == nil {
		a.pool, a.hinted = p, false
	}
	return err
}

// reread reads the pool's item again, and reports whether there was an answer.
func (a *Agent) reread(ctx context.Context) bool {
	one, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	p, err := a.cfg.Store.PoolItem(one, a.cfg.Pool)
	if err != nil {
		if ctx.Err() == nil {
			a.unanswered(a.about(wholePool), err)
		}
		return false
	}
	a.learn(p)
	return true
}

// learn stores the pool's item. It passes a new width on to the generators before the
// agent reserves any milliseconds that need that width.
func (a *Agent) learn(p protocol.PoolItem) {
	known := a.pool
	a.pool, a.hinted = p, false
	widened, err := tenure.Learn(a.timeline, known, p)
	for range widened {
		a.emit(Event{Kind: EventWidened, Lease: a.about(wholePool)})
	}
	if err != nil {
		a.lose(a.term, fmt.Errorf("%w: node %d contradicts the history of pool %q: %w", ErrLost, a.NodeID(), a.cfg.Pool, err))
	}
}

// uncap reads the pool again when an open widening keeps this agent from reserving as
// much as it needs. If the widening is still open, uncap voids it, so that a dead widener
// does not block other processes. A live widener tries again later.
func (a *Agent) uncap(ctx context.Context, now time.Time) {
	bites := func() bool { return a.cfg.timings().Capped(a.pool, now) }
	if !bites() || !a.reread(ctx) || !bites() {
		return
	}
	a.voidWiden(ctx)
}

// unstick reads the pool again when this holder has requested a longer reservation than
// an open widening allows, because its lease had grown before the holder read of the
// widening. Such a holder cannot send a renewal, long before the widening's limit affects
// other holders. If the widener is alive, it will finish soon, so the holder waits, and
// voids the widening only if it would otherwise lose its lease.
func (a *Agent) unstick(ctx context.Context) {
	a.mu.Lock()
	t := a.term
	a.mu.Unlock()
	if !t.Stuck(a.pool) || !a.reread(ctx) || !t.Stuck(a.pool) || !t.AtRisk(a.clock.Monotonic()) {
		return
	}
	a.voidWiden(ctx)
}

// voidWiden ends the widening that was open when the pool was last read.
func (a *Agent) voidWiden(ctx context.Context) {
	if a.denied {
		return
	}
	one, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	res, err := a.cfg.Store.WritePool(one, protocol.VoidWiden{Pool: a.cfg.Pool, Try: a.pool.Widening.Try})
	switch {
	case err == nil && res.Pool != nil:
		a.learn(*res.Pool)
	case errors.Is(err, ErrAccess):
		a.mayNot("end a widening that nobody finishes", err)
	case err != nil && ctx.Err() == nil:
		a.unanswered(a.about(wholePool), err)
	}
}

// openGroups doubles the number of open groups, as far as [protocol.OpenNext] allows,
// unless another process has just done so.
//
// In a narrow pool, the width is adapted to the open groups in the background, as long as
// the current width has room for more groups. If it has no room, a claimant that finds no
// node ID at all first widens the pool; the added node IDs can be claimed once the new
// width begins.
//
// An agent whose role may not write the pool's item uses only the groups that are open,
// until the reaper function or an operator opens more.
func (a *Agent) openGroups(ctx context.Context, s *tenure.Search, full bool) error {
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

// mayNot records that this role may not write the pool's item, and emits a warning.
func (a *Agent) mayNot(do string, err error) {
	a.denied = true
	a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Reason: protocol.Reason(err), Err: fmt.Errorf(
		"this role may not write the pool's item, and so not %s: the agent continues without it, and the reaper function or nodelease resize does the rest: %w", do, err)})
}

// openMore is openGroups for a role that may write the pool's item.
func (a *Agent) openMore(ctx context.Context, s *tenure.Search, full bool) error {
	_, before := a.pool.GroupsOpen()
	// Another process may have opened groups already. A read reveals that more cheaply than
	// a refused write, but the read is tried only once: if a herd reads the pool's item at
	// its start, reads are throttled, and retrying the read would delay the groups that the
	// herd needs.
	one, cancel := context.WithTimeout(ctx, protocol.CallLimit)
	p, err := asking(a, func() (protocol.PoolItem, error) { return a.cfg.Store.PoolItem(one, a.cfg.Pool) })
	cancel()
	var corrupt *CorruptError
	switch {
	case err == nil:
		a.layout.learn(p)
		a.pool, a.hinted = p, false
	case permanent(err) || errors.As(err, &corrupt) || ctx.Err() != nil:
		return err
	}
	if before+1 >= protocol.UsableGroups(a.pool) {
		if now := a.clock.Monotonic(); !full || a.narrow != 0 && now-a.narrow < widenAgain {
			return nil
		}
		one, cancel := context.WithTimeout(ctx, widenLimit)
		err := siblings.WidenUnlessOpen(one, a.cfg.Store, a.cfg.Pool)
		cancel()
		if err != nil {
			return a.staysNarrow(ctx, err)
		}
		if err := a.verify(ctx); err != nil || before+1 >= protocol.UsableGroups(a.pool) {
			return err
		}
	}
	if _, last := a.pool.GroupsOpen(); last == before {
		w := protocol.OpenGroups{Pool: a.cfg.Pool, From: a.pool.OpenGroups, To: protocol.OpenNext(a.pool)}
		res, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) { return a.cfg.Store.WritePool(ctx, w) })
		if err != nil {
			return err
		}
		if res.Pool != nil {
			a.pool, a.hinted = *res.Pool, false
		}
		if res.Applied && a.pool.Narrow() && a.pool.Bits() < protocol.BitsFor(a.pool.OpenGroups) {
			a.widen()
		}
	}
	s.Opened(before + 1)
	return nil
}

const (
	// widenAgain is how long an agent does not try again to widen a pool that it could not widen.
	widenAgain = time.Minute
	// widenLimit is how long a claimant widens a pool before it searches on. The largest pool takes
	// about half of it. A widening that was cut off blocks nobody.
	widenLimit = 3 * time.Minute
)

// staysNarrow emits a warning if the pool could not be widened. It returns err only if the
// search must end as well.
//
// Invariant (liveness): a search continues even if the pool cannot become wider, for example
// because an item is corrupt or does not answer. Other groups may have free node IDs, and other
// holders may release theirs.
func (a *Agent) staysNarrow(ctx context.Context, err error) error {
	if ctx.Err() != nil || permanent(err) {
		return err
	}
	a.narrow = a.clock.Monotonic()
	a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
	return nil
}

// widen adapts the width of the node IDs to the groups that this agent has opened, in the
// background. The work stops when the agent ends; the next agent that opens a group
// continues it.
func (a *Agent) widen() {
	if a.napping != nil { // nothing runs between two uses: another agent widens
		return
	}
	a.background.Go(func() {
		err := siblings.WidenUnlessOpen(a.life, a.cfg.Store, a.cfg.Pool)
		if err != nil && a.life.Err() == nil {
			a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
		}
	})
}

// poolLayout contains the layout of the pool's IDs, once this agent relies on it.
type poolLayout struct {
	mu    sync.Mutex
	known *snowflake.Layout

	final atomic.Pointer[protocol.PoolItem] // the last item that was read with a final layout; nil if there was none
}

// learn keeps p if its layout is final.
func (l *poolLayout) learn(p protocol.PoolItem) {
	if protocol.FinalLayout(p) != nil {
		l.final.Store(&p)
	}
}

// decideLayout returns the layout of the pool's IDs for a generator on this agent. If the
// pool has no layout, the first agent that makes IDs binds the layout that it requests.
// If the requested layout differs from the pool's, the error names both.
//
// An operator may correct the layout until a node ID has been claimed. The correction
// removes the layout before it looks for claims. So if a claimant reads the layout after
// its claim, either the correction finds the claim, or the claimant finds no layout.
//
// Invariant: the layout was read after the claim, or was marked as final when it was
// read. The mark is never removed. So for a pool that was used before, the read that
// every start makes before its claim is enough.
func (a *Agent) decideLayout(want *snowflake.Layout) (snowflake.Layout, error) {
	return a.decideLayoutIn(a.life, want)
}

// decideLayoutIn is decideLayout within ctx.
func (a *Agent) decideLayoutIn(ctx context.Context, want *snowflake.Layout) (snowflake.Layout, error) {
	a.layout.mu.Lock()
	defer a.layout.mu.Unlock()
	defer func() {
		if a.layout.known != nil {
			a.growing.generates.Store(true)
		}
	}()
	if known := a.layout.known; known != nil && (want == nil || protocol.LayoutOf(*want) == protocol.LayoutOf(*known)) {
		return *known, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("no answer from the store within %v", startLimit))
	defer cancel()
	var item protocol.PoolItem
	var err error
	if final := a.layout.final.Load(); final != nil {
		item = *final
	} else {
		item, _, err = a.readPool(ctx)
	}
	if err == nil {
		item, err = siblings.BindLayout(ctx, a.cfg.Store, item, want)
	}
	if err != nil {
		return snowflake.Layout{}, err
	}
	l := item.Layout.Snowflake()
	a.layout.known = &l
	return l, nil
}
