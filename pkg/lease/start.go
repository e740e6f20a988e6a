package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// startLimit is how long a start waits for an answer from the store, in addition to
// Config.Wait, unless its context ends earlier.
const startLimit = 30 * time.Second

// Start claims a node ID and keeps it until Close. It returns once the node ID is held
// and may be used. ctx applies to the start only: canceling it later has no effect, so
// that a lease is still held while a server finishes its last requests.
//
// Errors name the remedy. Start fails at once with ErrUnsafeReplication, ErrItemFormat,
// ErrTable for a table with different keys, ErrClockSkew if ECS says that the clock is wrong,
// or ErrAccess if the AWS configuration cannot be used. It fails only after Config.Wait with
// other errors that may be temporary: ErrPoolExhausted, ErrClockBehind, ErrClockSkew,
// ErrAccess, ErrPoolNotSeeded, or ErrTable for a missing table. It retries throttled
// requests, 5xx answers and time-outs for Config.Wait plus 30 s. If the node ID is lost before
// it may be used, Start claims another one, with StopOnLoss as well.
func Start(ctx context.Context, cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err := errors.Join(protocol.CheckContext(ctx), err); err != nil {
		return nil, err
	}
	limit := max(cfg.Wait, cfg.Wait+startLimit) // the sum may overflow
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer from the store within %v", limit))
	defer cancel()
	hangUp := func() {}
	if cfg.Store == nil {
		client, closeIdle, err := openClient(ctx, "", awshttp.DefaultHTTPTransportIdleConnTimeout)
		if err != nil {
			return nil, err
		}
		cfg.Store, hangUp = NewDynamoDB(client, cfg.Table), closeIdle
	}
	if cfg.Clock == nil {
		cfg.Clock = snowflake.SystemClock()
	}
	me, givenTask := identify(ctx), cfg.Task
	cfg = me.introduce(cfg)
	if err := me.checkClock(cfg.Clock.Wall(), cfg.timings().MaxSkew()); err != nil {
		return nil, err
	}
	a := newAgent(cfg, me, givenTask, snowflake.NewTimeline(cfg.Clock), hangUp)
	a.timeline.DecideLayout(a.decideLayout)
	a.close = sync.OnceValue(a.shutdown)
	a.starting = true
	if me.warning != nil {
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: me.warning})
	}
	a.life, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := a.join(ctx); err != nil {
		a.stop()
		a.background.Wait()
		a.events.drain()
		a.hangUp()
		return nil, err
	}
	go a.loop(a.life)
	if err := a.awaitSpan(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// awaitSpan waits until the agent's span begins, which is after the last millisecond of the
// previous holder. Meanwhile, the agent may claim another node ID (checkFloor).
func (a *Agent) awaitSpan(ctx context.Context) error {
	for asked := false; ; {
		renewed := a.Renewed()
		if a.started() {
			return nil
		}
		over, left := a.current(), a.early()
		switch {
		case over != nil: // another node ID is being claimed
			left = math.MaxInt64
		case left > a.cfg.ClaimGuard && !asked: // longer than a claim with this clock accepts
			asked = true
			a.RenewNow()
		}
		begins := time.NewTimer(left)
		select {
		case <-begins.C:
		case <-renewed:
		case <-a.Done():
			begins.Stop()
			return a.Err()
		case <-ctx.Done():
			begins.Stop()
			_, err := a.Lease() // why the node ID may not be used yet
			return errors.Join(err, context.Cause(ctx))
		}
		begins.Stop()
	}
}

// started ends the start, and reports whether the agent has a node ID that
// it may use.
//
// Invariant (liveness): a loss during the start, for example after a claim with a clock that was
// ahead, does not end the process, which would only be restarted to claim another node ID. A loss
// after the start is never mistaken for one during the start.
func (a *Agent) started() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == nil && a.earlyBy() <= 0 {
		a.starting = false
	}
	return !a.starting
}

// reacquires reports whether the agent claims another node ID after a loss. The caller
// holds mu.
func (a *Agent) reacquires() bool { return a.cfg.OnLost == Reacquire || a.starting }

// newAgent returns an agent that has not sent a request yet.
func newAgent(cfg Config, me owner, givenTask string, on *snowflake.Timeline, hangUp func()) *Agent {
	a := &Agent{
		cfg: cfg, givenTask: givenTask, clock: cfg.Clock, timeline: on, hangUp: hangUp,
		done: make(chan struct{}), stopped: make(chan struct{}), nudged: make(chan struct{}, 1), metadata: description{all: cfg.Metadata, facts: me.facts},
		ecs: ecsWord{clockError: me.task.Clock.Error, at: cfg.Clock.Monotonic()},
	}
	a.events.open(cfg)
	return a
}

// join claims a node ID. For up to Config.Wait, it retries after errors that may be
// temporary.
func (a *Agent) join(ctx context.Context) error {
	began := a.clock.Monotonic()
	for n := 0; ; n++ {
		left := a.cfg.Wait - (a.clock.Monotonic() - began)
		err := a.take(ctx, left)
		if err == nil || left <= 0 || !protocol.Passing(err) {
			return err
		}
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Reason: protocol.Reason(err), Err: err})
		if cause := protocol.Pause(ctx, min(protocol.Backoff(n), left)); cause != nil {
			return errors.Join(err, cause)
		}
	}
}

// check makes sure, once per agent, that the table can keep leases. It relies on the
// verdict in the pool's item if that verdict is valid, and otherwise asks the store.
//
// Invariant: no agent seeds or claims before check has succeeded. Reading the pool's item
// is safe in any table.
func (a *Agent) check(ctx context.Context, known *protocol.Verdict) error {
	if a.checked = a.checked || known.Counts(a.cfg.Store, a.clock.Wall()); a.checked {
		return nil
	}
	_, err := protocol.Retry(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, a.cfg.Store.Check(ctx) })
	if errors.Is(err, protocol.ErrUnchecked) {
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: err})
		err = nil
	}
	a.checked = err == nil
	return err
}

// take checks the table, acquires a node ID and begins to use it.
func (a *Agent) take(ctx context.Context, wait time.Duration) error {
	began := a.clock.Monotonic()
	pool, at, hinted, err := a.readEither(ctx)
	if err == nil || ctx.Err() == nil { // checked even after an error, since a problem with the table is more specific
		if wrong := a.check(ctx, pool.Verdict); wrong != nil {
			return wrong
		}
	}
	if errors.Is(err, ErrPoolNotSeeded) && a.cfg.SeedIfMissing != nil {
		_, wrong := leasepool.Open(a.cfg.Store, a.cfg.Pool).Seed(ctx, *a.cfg.SeedIfMissing)
		// Invariant (liveness): a pool that exists is used, whatever its size. An agent with another
		// Spec may have seeded it at the same time.
		if pool, at, err = a.readPool(ctx); err != nil && wrong != nil {
			return wrong
		}
	}
	if err == nil {
		pool, at, hinted, err = a.soon(ctx, pool, at, hinted)
	}
	if err != nil {
		return err
	}
	if err := a.checkClock(at, pool.ServerTime); err != nil {
		return err
	}
	a.pool, a.hinted = pool, hinted
	a.layout.learn(pool)
	t, err := a.acquire(ctx, wait)
	if err != nil {
		return err
	}
	if err := a.bind(t, began); err != nil && a.timeline.Copied() {
		a.timeline.Seal() // the claim is not released, since a copy may have bound the same span
		a.settled()
		return err
	} else if err != nil {
		_ = a.abandon(ctx, t.Lease.NodeID, t.Lease.Holder) // nothing was stamped
		return fmt.Errorf("%w: %w", errUnfit, err)
	}
	return nil
}

// bind allows generators to stamp the span of t. The claim of t began at the time began.
func (a *Agent) bind(t *tenure.Term, began time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	span := t.Span(a.pool)
	if err := a.timeline.Bind(span); err != nil {
		return err
	}
	a.ceiling = span.Ceiling
	a.term, a.over, a.suspended, a.begun, a.stepped = t, nil, false, false, true
	a.boundNow(t)
	a.metadata.tell()
	a.watch(t)
	a.tellNow(Event{Kind: EventClaimed, Lease: Lease(t.Lease), Took: a.clock.Monotonic() - began})
	return nil
}
