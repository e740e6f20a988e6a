package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Agent holds one number for this process and keeps it. All of its methods are
// safe for concurrent use. It is a [snowflake.Node].
type Agent struct {
	cfg      Config
	clock    Clock
	timeline *snowflake.Timeline
	hook     hook
	pool     protocol.PoolItem // as last read; see learn.go
	stale    bool              // a number was met that knows of a newer widening

	life       context.Context // ends when the agent closes
	background sync.WaitGroup

	mu        sync.Mutex
	term      *term // nil before the first claim
	begun     bool  // not_before has passed
	suspended bool  // announced
	over      error // why this term ended; nil while it may be renewed
	closing   bool
	metadata  description
	ecs       ecsWord
	err       error // why the agent ended; nil while it goes on
	done      chan struct{}
	watchdog  *time.Timer

	stop    context.CancelFunc // ends the loop
	stopped chan struct{}      // the loop has ended
	close   func() error       // once
}

const (
	// startLimit is how long a start lasts without an answer from the store,
	// beyond Config.Wait, when its context has no earlier end.
	startLimit = 30 * time.Second
	// releaseBudget is how long Close tries to give the number back.
	releaseBudget = 3 * time.Second
)

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
	if cfg.Task == "" {
		cfg.Task = me.task
		cfg.Metadata = me.addTo(cfg.Metadata, maxText-cfg.text())
	}
	cfg.Metadata = withLibrary(cfg.Metadata, release(), maxText-cfg.text())
	if err := me.checkClock(cfg.Clock.Wall(), cfg.maxSkew()); err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, clock: cfg.Clock, timeline: snowflake.NewTimeline(cfg.Clock), hook: hook{fn: cfg.OnEvent},
		done: make(chan struct{}), stopped: make(chan struct{}), metadata: description{all: cfg.Metadata},
	}
	a.close = sync.OnceValue(a.shutdown)
	a.ecs.took(me, cfg.Clock.Monotonic())
	if me.warning != nil {
		a.emit(Event{Kind: EventWarning, Lease: Lease{Pool: cfg.Pool, NodeID: -1}, Err: me.warning})
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
		a.emit(Event{Kind: EventWarning, Lease: Lease{Pool: a.cfg.Pool, NodeID: -1}, Err: err})
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

// NodeID is the number, from 0. It is constant while the agent lives, unless
// Config.OnLost is Reacquire. Having it is no proof of holding it: see Lease.
func (a *Agent) NodeID() int { return a.lease().NodeID }

// Pool is the pool that the number is of.
func (a *Agent) Pool() string { return a.cfg.Pool }

// lease is what is known of the lease, whether it is held or not.
func (a *Agent) lease() Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term.lease.Clone()
}

// Lease is the lease, if it may be relied on at this moment: checked now, on
// the monotonic clock. Otherwise the error is ErrSuspended, ErrLost or
// ErrClosed. Between the check and an effect elsewhere any time may pass: a
// resource that can should compare Version, the fencing token.
func (a *Agent) Lease() (Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch now := a.clock.Monotonic(); {
	case a.err != nil:
		return Lease{}, a.err
	case a.closing:
		return Lease{}, ErrClosed
	case a.over != nil:
		return Lease{}, a.over
	case a.earlyBy() > 0:
		return Lease{}, fmt.Errorf("%w: node %d of pool %q is reserved for its last holder until %s", ErrSuspended, a.term.lease.NodeID, a.cfg.Pool, protocol.Stamp(a.term.lease.NotBefore))
	case !a.term.held(now):
		return Lease{}, fmt.Errorf("%w: node %d of pool %q was not confirmed in time, %v ago", ErrSuspended, a.term.lease.NodeID, a.cfg.Pool, (now - a.term.deadline).Round(time.Millisecond))
	}
	return a.term.lease.Clone(), nil
}

// Left is the time until the deadline, as of now: not positive once it has passed.
// A confirmed renewal moves the deadline on. It is for those who must act before
// it; whether the lease may be relied on is for Lease to say.
func (a *Agent) Left() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term.deadline - a.clock.Monotonic()
}

// early is how long the number still belongs to its last holder, as far as this
// machine's clock can tell; not positive once it does not.
func (a *Agent) early() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.earlyBy()
}

// earlyBy is early for a caller that holds mu. What is reserved may end later than
// the last holder's lease: when it was freed by force, only this keeps the next
// one from relying on the number while the last one still does. Once past, it
// stays past, wherever the wall clock steps.
func (a *Agent) earlyBy() time.Duration {
	if !a.begun {
		left := a.term.lease.NotBefore.Sub(a.clock.Wall())
		a.begun = left <= 0
		return left
	}
	return 0
}

// Timeline is what generators stamp from; it makes the agent a [snowflake.Node].
func (a *Agent) Timeline() *snowflake.Timeline { return a.timeline }

// Done is closed when the agent has ended: lost, or closed. It stays open
// through a suspension.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err is nil until Done is closed, and then ErrLost or ErrClosed with the
// reason.
func (a *Agent) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// end ends the agent, once.
func (a *Agent) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
		close(a.done)
	}
}

// Close stops ID making first and then gives the number back, within 3 s; it
// returns when all has ended, and may be called again. Drain before, since
// nothing works after. The error says that giving back was not confirmed: the
// number then rests until it expires.
func (a *Agent) Close() error { return a.close() }

func (a *Agent) shutdown() error {
	// Fence before the release is sent: what the store learns as the last
	// millisecond stamped must be the last one ever.
	last := a.timeline.Close()
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	a.stop()
	<-a.stopped // no renewal is sent after the release
	a.background.Wait()
	a.mu.Lock()
	a.watchdog.Stop()
	t, over := a.term, a.over
	a.over = ErrClosed
	a.mu.Unlock()
	var err error
	if over == nil || errors.Is(over, errExpired) {
		err = a.release(t, last)
	}
	a.end(fmt.Errorf("%w: node %d of pool %q was given back", ErrClosed, t.lease.NodeID, a.cfg.Pool))
	a.hook.drain(time.Second)
	return err
}

// release gives the number back; its context is its own, since whoever calls
// Close has usually canceled theirs.
func (a *Agent) release(t *term, last time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseBudget)
	defer cancel()
	began := a.clock.Monotonic()
	w := t.release(last)
	_, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Result, error) {
		one, cancel := context.WithTimeout(ctx, renewLimit)
		defer cancel()
		return a.cfg.Store.Write(one, w)
	})
	e := a.asOfNow(Event{Kind: EventReleased, Lease: t.lease, Took: a.clock.Monotonic() - began})
	if err != nil {
		err = fmt.Errorf("lease: giving node %d of pool %q back was not confirmed, it rests until %s: %w",
			t.lease.NodeID, a.cfg.Pool, protocol.Stamp(t.askedExpires.Add(a.cfg.ClaimGuard)), err)
		e.Kind, e.Reason, e.Err = EventNotReleased, protocol.Reason(err), err
	}
	// Refused means that an earlier attempt landed, or that it is someone else's
	// already: both are what was wanted.
	a.emit(e)
	return err
}

// emit tells the log and the hook.
func (a *Agent) emit(e Event) {
	e.Time = a.clock.Wall()
	e.log(a.cfg.Logger)
	a.hook.tell(e)
}

// newSession names one life of a lease.
func newSession() string { return uuid.Must(uuid.NewV7()).String() }
