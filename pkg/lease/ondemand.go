package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// defaultOnDemandTTL is the length of an on-demand lease whose Config names none.
const defaultOnDemandTTL = 5 * time.Minute

// OnDemand leases a node ID for a process that sleeps between its uses, or lives for
// seconds: an AWS Lambda function (package leaselambda), a batch job, a step of a
// pipeline. Between calls, it has no goroutine and no timer. Refresh claims a node ID at
// the first use, and renews the lease when it is used and less than a third of it is
// left. The lease of an idle process is not renewed, so its node ID becomes free by
// itself.
//
// All methods are safe for concurrent use. It is a [Provider]. NewOnDemand returns one; a
// nil or zero OnDemand behaves like one that was closed.
//
// The promises are those of [Agent]. IDs are unique regardless of freezes, clocks and
// lost answers. For Lease, the exclusive right, the agent measures the time since the
// confirmed attempt with the boot clock, the monotonic clock and the wall clock, and
// between two uses counts the largest of the three: on a paused machine, only the last
// may count the pause.
type OnDemand struct {
	cfg      Config
	timeline *snowflake.Timeline

	mu       sync.Mutex
	agent    *Agent // nil before the first use; its loop never runs
	flight   *flight
	outside  reading         // the last Witness: wall is the reading of the outside clock
	deciding context.Context // used by the call of Generator in progress
	closed   bool

	making chan struct{} // held by the call of Generator in progress
	done   chan struct{}
	close  func() error // once
}

var _ Provider = (*OnDemand)(nil)

// NewOnDemand returns an on-demand agent. It sends no request: the first Refresh does.
//
// Config.TTL defaults to 5 min. RenewEvery, OnExpiry and OnLost must be unset: the
// agent renews when it is used, resumes after a freeze if its node ID was not taken,
// and otherwise claims another one. With Config.Wait, a Refresh waits that long for a
// free node ID. The error lists all problems of cfg.
func NewOnDemand(cfg Config) (*OnDemand, error) {
	var errs []error
	if cfg.RenewEvery != 0 {
		errs = append(errs, fmt.Errorf("lease: Config: RenewEvery %v: an on-demand agent renews when it is used: leave it out", cfg.RenewEvery))
	}
	if cfg.OnExpiry != Resume || cfg.OnLost != StopOnLoss {
		errs = append(errs, errors.New("lease: Config: OnExpiry or OnLost: an on-demand agent resumes, or claims another node ID: leave them out"))
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultOnDemandTTL
	}
	// Its lease never grows: the environment's settings for growth cannot be wrong for it.
	// Those of a wrong TTL would be wrong as well, and nobody has set them.
	ttl := min(max(cfg.TTL.Truncate(time.Millisecond), time.Millisecond), protocol.MaxTTL)
	cfg.MaxTTL, cfg.MaxReserve = cmp.Or(cfg.MaxTTL, ttl), cmp.Or(cfg.MaxReserve, protocol.MaxTTL+ttl)
	full, err := cfg.withDefaults()
	if errs = append(errs, err); errors.Join(errs...) != nil {
		return nil, errors.Join(errs...)
	}
	full.OnLost = Reacquire // a loss ends the term, not the agent
	if full.Clock == nil {
		full.Clock = snowflake.SystemClock()
	}
	o := &OnDemand{cfg: full, timeline: snowflake.NewTimeline(full.Clock), making: make(chan struct{}, 1), done: make(chan struct{})}
	o.timeline.DecideLayout(o.decideLayout)
	o.close = sync.OnceValue(o.shutdown)
	return o, nil
}

// Refresh makes sure that the node ID can be used: it claims one, or renews the lease
// if less than a third of it is left, and otherwise returns at once. Concurrent calls
// share one round of requests.
//
// It returns before ctx's deadline, and without one after Config.Wait and 30 s at most.
// When ctx ends, the wait of its caller ends; the attempts that were sent stay
// recorded, and the next call settles them before it tries another node ID. While
// the lease is good, an unanswered renewal is not an error.
//
// Errors name the remedy: ErrPoolExhausted, ErrPoolNotSeeded, ErrAccess, ErrTable,
// ErrClockSkew and the others of [Start], ErrSuspended if no answer came in time, and
// ErrClosed. None of them is final, except the last: the next call tries again.
func (o *OnDemand) Refresh(ctx context.Context) error {
	if o.absent() {
		return errNoOnDemand
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return o.late(context.Cause(ctx))
	}
	f, mine, err := o.board(ctx)
	if f == nil {
		return err
	}
	wait, stop := inTime(ctx)
	defer stop()
	for !mine {
		select { // it was abandoned, and ends soon
		case <-f.done:
		case <-wait.Done():
			return o.late(context.Cause(wait))
		}
		if f, mine, err = o.board(ctx); f == nil {
			return err
		}
	}
	return o.ride(ctx, wait, f)
}

// inTime returns a context that ends a little before ctx: a caller with a deadline
// needs time to act on the error.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at.Add(-min(time.Until(at)/10, time.Second/2)))
}

// flight is one round of requests, for all callers that wait for it.
type flight struct {
	done    chan struct{}
	err     error // once done is closed
	riders  int   // callers that wait; the flight ends with the last of them
	givenUp bool
	cancel  context.CancelCauseFunc
}

// board returns the flight in progress, or begins one; none if the lease is fresh.
// mine reports whether the caller is a rider of it.
func (o *OnDemand) board(ctx context.Context) (f *flight, mine bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return nil, false, o.closedError()
	case o.agent != nil && o.agent.rested():
		return nil, false, nil
	case o.flight == nil:
		o.takeOff(ctx)
	case o.flight.givenUp:
		return o.flight, false, nil
	}
	o.flight.riders++
	return o.flight, true, nil
}

// takeOff begins a flight; the caller holds mu. It is independent of the caller's
// cancellation, since others may ride along.
func (o *OnDemand) takeOff(ctx context.Context) {
	limit := max(o.cfg.Wait, o.cfg.Wait+startLimit) // the sum may overflow
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer from the store within %v", limit))
	f := &flight{done: make(chan struct{}), cancel: cancel, err: ErrSuspended}
	o.flight = f
	go func() {
		defer func() { // also if a hook ends this goroutine
			stop()
			cancel(nil)
			o.mu.Lock()
			o.flight = nil
			o.mu.Unlock()
			close(f.done)
		}()
		f.err = o.fly(ctx)
		switch cause := context.Cause(ctx); {
		case f.err == nil || cause == nil:
		case errors.Is(cause, ErrClosed):
			f.err = cause
		case !errors.Is(f.err, ErrPoolExhausted): // which is more specific
			f.err = o.late(f.err)
		}
	}()
}

// ride waits for a flight until wait ends, which is inTime of ctx.
func (o *OnDemand) ride(ctx, wait context.Context, f *flight) error {
	select {
	case <-f.done:
		return f.err
	case <-wait.Done():
	}
	o.mu.Lock()
	f.riders--
	last := f.riders == 0
	f.givenUp = f.givenUp || last
	good := o.agent != nil && o.agent.good()
	o.mu.Unlock()
	switch {
	case last:
	case good && ctx.Err() == nil: // an unanswered renewal is not an error, for any caller
		return nil
	default:
		return o.late(context.Cause(wait))
	}
	// Nothing is sent without a caller. The store's last answer counts for the rest of
	// the time.
	f.cancel(context.Cause(wait))
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return o.late(context.Cause(wait))
	}
}

// late is the error of a call that had no answer in time.
func (o *OnDemand) late(err error) error {
	return fmt.Errorf("%w: pool %q was not answered in time; the next call goes on where this one stopped. If it goes on: is the table throttled, can this process reach DynamoDB, has the call more than a second? %w",
		ErrSuspended, o.cfg.Pool, err)
}

// fly claims or renews. Only one runs at a time, and only it writes.
func (o *OnDemand) fly(ctx context.Context) error {
	a, err := o.open(ctx)
	if err != nil {
		return err
	}
	a.hangUp()       // connections killed by a freeze would cost a time-out
	a.denied = false // permissions may have been corrected
	for kept := false; ; {
		a.wakeUp()
		switch held := a.bound() && a.current() == nil; {
		case !held:
			if err := a.join(ctx); err != nil {
				return err
			}
			kept = false
		case !a.fresh() && !(kept && a.left() > 0): // including a claim in doubt that landed long ago
			if err := a.keep(ctx); err != nil {
				return err
			}
			kept = true
		default:
			if err := a.begin(ctx); err != nil {
				return err
			}
			if a.good() { // else it was frozen or copied meanwhile
				a.beRested()
				return nil
			}
		}
	}
}

// open creates the agent at the first use: a corrected configuration is read again.
func (o *OnDemand) open(ctx context.Context) (*Agent, error) {
	o.mu.Lock()
	a := o.agent
	o.mu.Unlock()
	if a != nil {
		return a, nil
	}
	cfg, hangUp := o.cfg, func() {}
	if cfg.Store == nil {
		client, closeIdle, err := openClient(ctx, "", napConnections)
		if err != nil {
			return nil, err
		}
		cfg.Store, hangUp = NewDynamoDB(client, cfg.Table), closeIdle
	} else if d, ok := cfg.Store.(*DynamoDB); ok {
		hangUp = idleOf(d)
	}
	me := identify(ctx)
	cfg = me.introduce(cfg)
	if err := me.checkClock(cfg.Clock.Wall(), cfg.timings().MaxSkew()); err != nil {
		return nil, err
	}
	a = newAgent(cfg, me, o.cfg.Task, o.timeline, hangUp)
	a.napping = &naps{}
	a.life, a.stop = context.WithCancel(context.Background())
	if me.warning != nil && !errors.Is(me.warning, errSleeps) {
		a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: me.warning})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	a.napping.outside = o.outside
	o.agent = a
	return a, nil
}

// idleOf returns a function that closes the idle connections of the user's own client, if its HTTP
// client can: a freeze may have killed many, and each would cost a request its retry.
func idleOf(d *DynamoDB) func() {
	client, _ := d.Table()
	if c, ok := client.(*dynamodb.Client); ok {
		if h, ok := c.Options().HTTPClient.(interface{ CloseIdleConnections() }); ok {
			return h.CloseIdleConnections
		}
	}
	return func() {}
}

// napConnections is how long an on-demand agent's connections stay open without a
// request: long enough for one use, and gone before the process sleeps.
const napConnections = time.Second

// Witness reports the reading of a clock outside this machine, such as the deadline
// that AWS Lambda sets for an invocation, less a constant. Only the difference of two
// readings counts: the time between them was at least that long, regardless of this
// machine's clocks.
func (o *OnDemand) Witness(at time.Time) {
	if o.absent() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outside = reading{mono: o.cfg.Clock.Monotonic(), wall: at}
	if o.agent != nil {
		o.agent.witness(o.outside)
	}
}
