package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// startLimit is how long a start lasts without an answer from the store, beyond
// Config.Wait, when its context has no earlier end.
const startLimit = 30 * time.Second

// Start claims a number and keeps it until Close. It returns once the number is
// held and may be used. ctx bounds the start only: canceling it later ends
// nothing, so that a lease outlives the draining of requests.
//
// It fails at once, with the remedy in the text, where waiting would mend
// nothing: ErrTable, ErrAccess, ErrUnsafeReplication, ErrItemFormat,
// ErrPoolNotSeeded, ErrClockSkew, ErrClockBehind, and ErrPoolExhausted when
// Config.Wait has passed. Throttles, 5xx and time-outs are tried again.
func Start(ctx context.Context, cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Wait+startLimit, fmt.Errorf("no answer from the store within %v", cfg.Wait+startLimit))
	defer cancel()
	if cfg.Store == nil {
		if cfg.Store, err = Open(ctx, cfg.Table, ""); err != nil {
			return nil, err
		}
	}
	if cfg.Clock == nil {
		cfg.Clock = snowflake.SystemClock()
	}
	me := identify(ctx)
	cfg = me.introduce(cfg)
	if err := me.checkClock(cfg.Clock.Wall(), cfg.maxSkew()); err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, clock: cfg.Clock, timeline: snowflake.NewTimeline(cfg.Clock), hook: hook{fn: cfg.OnEvent},
		done: make(chan struct{}), stopped: make(chan struct{}), metadata: description{all: cfg.Metadata},
		ecs: ecsWord{clockError: me.task.Clock.Error, at: cfg.Clock.Monotonic()},
	}
	a.close = sync.OnceValue(a.shutdown)
	if me.warning != nil {
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: me.warning})
	}
	a.life, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := a.join(ctx); err != nil {
		a.stop()
		a.background.Wait()
		a.hook.drain(releaseBudget)
		return nil, err
	}
	go a.loop(a.life)
	// The span begins behind the last millisecond of the holder before.
	for left := a.early(); left > 0; left = a.early() {
		if err := protocol.Pause(ctx, left); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

// join looks whether all is as it should be and takes a number.
func (a *Agent) join(ctx context.Context) error {
	_, err := protocol.Retry(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, a.cfg.Store.Check(ctx) })
	if errors.Is(err, protocol.ErrUnchecked) {
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
	} else if err != nil {
		return err
	}
	return a.take(ctx, a.cfg.Wait)
}

// take acquires a number and begins to use it.
func (a *Agent) take(ctx context.Context, wait time.Duration) error {
	began := a.clock.Monotonic()
	var before time.Time
	read := func(ctx context.Context) (protocol.PoolItem, error) {
		before = a.clock.Wall()
		return a.cfg.Store.PoolItem(ctx, a.cfg.Pool)
	}
	pool, err := protocol.Retry(ctx, read)
	if errors.Is(err, ErrPoolNotSeeded) && a.cfg.SeedIfMissing != nil {
		if _, err := leasepool.Open(a.cfg.Store, a.cfg.Pool).Seed(ctx, *a.cfg.SeedIfMissing); err != nil {
			return err
		}
		pool, err = protocol.Retry(ctx, read)
	}
	if err != nil {
		return err
	}
	if err := protocol.CheckSkew(before, a.clock.Wall(), pool.ServerTime, a.cfg.maxSkew()); err != nil {
		return err
	}
	a.pool = pool
	t, err := a.acquire(ctx, wait)
	if err != nil {
		return err
	}
	if err := a.bind(t); err != nil {
		a.abandon(ctx, t.lease.NodeID, t.lease.Holder) // nothing was stamped
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	a.emit(a.asOfNow(Event{Kind: EventClaimed, Lease: t.lease, Took: a.clock.Monotonic() - began}))
	return nil
}

// bind lets generators stamp the span of t.
func (a *Agent) bind(t *term) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.timeline.Bind(snowflake.Span{
		NodeID: t.lease.NodeID, Nodes: a.pool.Size, Eras: a.pool.Eras,
		NotBefore: t.lease.NotBefore, Until: t.lease.ReservedUntil, Deadline: t.idDeadline,
	})
	if err != nil {
		return err
	}
	a.term, a.over, a.suspended, a.begun = t, nil, false, false
	a.metadata.tell()
	a.watch()
	return nil
}
