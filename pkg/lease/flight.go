package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// flight is one round of requests, for all callers that wait for it.
type flight struct {
	done    chan struct{}
	err     error // valid once done is closed
	riders  int   // callers that wait; the flight is canceled when the last of them gives up
	givenUp bool
	cancel  context.CancelCauseFunc
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

// board returns the flight in progress, or begins one. It returns nil if no request is
// needed. mine reports whether the caller is one of the flight's riders. If it is not,
// the flight was given up and ends soon.
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

// takeOff begins a flight; the caller holds mu. The flight does not end with the caller's
// context, since other callers may wait for the same flight.
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
		case f.err == nil:
		case errors.Is(cause, ErrClosed), errors.Is(f.err, snowflake.ErrClosed): // Close closes the timeline first
			f.err = o.closedError()
		case cause == nil:
		case !errors.Is(f.err, ErrPoolExhausted): // ErrPoolExhausted is more specific
			f.err = o.late(f.err)
		}
	}()
}

// ride waits for a flight until the context wait ends, which is inTime(ctx).
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
	// No request is sent without a waiting caller, so the last rider cancels the flight.
	// Until ctx ends, the result of the flight, which depends on the store's last answer, is
	// still returned.
	f.cancel(context.Cause(wait))
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return o.late(context.Cause(wait))
	}
}

// late returns the error of a call that was not answered in time.
func (o *OnDemand) late(err error) error {
	return fmt.Errorf("%w: pool %q was not answered in time; the next call goes on where this one stopped. If it goes on: is the table throttled, can this process reach DynamoDB, has the call more than a second? %w",
		ErrSuspended, o.cfg.Pool, err)
}

// fly claims a node ID or renews the lease. Only one call of fly runs at a time, and
// until Close nothing else writes.
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
		case !a.isFresh(a.left()) && !(kept && a.left() > 0): // this includes an unanswered claim that succeeded long ago
			if err := a.keep(ctx); err != nil {
				return err
			}
			kept = true
		default:
			err := a.begin(ctx)
			if a.current() != nil {
				continue // the node ID is lost, or was claimed with a clock that was ahead: another one is claimed
			}
			if err != nil {
				return err
			}
			if a.good() { // otherwise the process was frozen or copied meanwhile
				a.beRested()
				return nil
			}
		}
	}
}

// open creates the agent at the first use. After an error, the next use tries again and
// rereads the AWS configuration, which may have been corrected meanwhile.
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
	} else if d, ok := cfg.Store.(*protocol.DynamoDB); ok {
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

// idleOf returns a function that closes the idle connections of the user's own client, if
// its HTTP client supports that. A freeze may have broken many connections, and a request
// over a broken connection fails and has to be retried.
func idleOf(d *protocol.DynamoDB) func() {
	client, _ := d.Table()
	if c, ok := client.(*dynamodb.Client); ok {
		if h, ok := c.Options().HTTPClient.(interface{ CloseIdleConnections() }); ok {
			return h.CloseIdleConnections
		}
	}
	return func() {}
}

// napConnections is how long an on-demand agent's connections stay open without a
// request: long enough for one use, and short enough to end before the process sleeps.
const napConnections = time.Second
