package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// defaultOnDemandTTL is the length of an on-demand lease if Config.TTL is 0.
const defaultOnDemandTTL = 5 * time.Minute

// OnDemand leases a node ID for a process that sleeps between its uses, or lives only for
// seconds: an AWS Lambda function (package leaselambda), a batch job, a step of a
// pipeline. Between calls, an OnDemand has no goroutine and no timer. The first call of
// Refresh claims a node ID; a later call renews the lease if less than a third of the
// lease is left. The lease of an idle process is not renewed, so its node ID becomes free
// by itself.
//
// NewOnDemand returns an OnDemand. OnDemand implements [Provider], and all of its methods
// are safe for concurrent use. A nil or zero OnDemand behaves like a closed one.
//
// The promises are those of [Agent]. IDs are unique regardless of freezes, clocks and
// lost answers. To decide whether Lease, the exclusive right, may be relied on, the agent
// measures the time since the confirmed attempt with the boot clock, the monotonic clock
// and the wall clock. Between two uses it takes the largest of the three times, since
// after a pause of the machine, the wall clock may be the only clock that includes the
// pause.
type OnDemand struct {
	cfg      Config
	timeline *snowflake.Timeline

	mu       sync.Mutex
	agent    *Agent // nil before the first use; its loop never runs
	flight   *flight
	outside  reading                 // the last call of Witness; its wall is the reading of the outside clock
	deciding context.Context         // used by the call of Generator in progress
	giveUp   context.CancelCauseFunc // ends deciding
	closed   bool

	making chan struct{} // held by the call of Generator in progress
	done   chan struct{}
	close  func() error // shuts down at the first call
}

var _ Provider = (*OnDemand)(nil)

// NewOnDemand returns an on-demand agent. It sends no request: the first Refresh does.
//
// Config.TTL defaults to 5 min. RenewEvery, OnExpiry and OnLost must not be set: the
// agent renews when it is used, resumes after a freeze if its node ID was not taken, and
// otherwise claims another node ID. With Config.Wait, a Refresh waits that long for a
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
	// An on-demand lease never grows, so invalid growth limits in the environment must not
	// cause errors. Limits that fit the TTL, or the nearest valid TTL, are used instead.
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

// Refresh makes sure that the agent has a node ID that can be used. It claims a node ID
// if the agent has none, renews the lease if less than a third of it is left, and
// otherwise returns at once. Concurrent calls share one round of requests.
//
// It returns before ctx's deadline; without a deadline, it returns within Config.Wait
// plus 30 s. When ctx ends, the caller stops waiting. Attempts that were already sent
// stay recorded, and the next call settles them before it tries another node ID. While
// the lease may still be relied on, an unanswered renewal is not an error.
//
// Errors name the remedy: ErrPoolExhausted, ErrPoolNotSeeded, ErrAccess, ErrTable,
// ErrClockSkew and the other errors of [Start], ErrSuspended if no answer came in time,
// and ErrClosed. Only ErrClosed is final; after any other error, the next call tries
// again.
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
		select { // the flight was given up, and ends soon
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

// Witness reports the reading of a clock outside this machine, such as the deadline that
// AWS Lambda sets for an invocation, less a constant. Only the difference between two
// readings matters: at least that much time has passed between them, whatever this
// machine's clocks show.
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

// errNoOnDemand is returned by a nil or zero OnDemand.
var errNoOnDemand = fmt.Errorf("%w: this OnDemand is nil or zero: lease.NewOnDemand returns one", ErrClosed)

// absent reports whether o is nil or zero: NewOnDemand did not create it.
func (o *OnDemand) absent() bool { return o == nil || o.done == nil }

// held returns the agent if it ever had a node ID, and nil otherwise.
func (o *OnDemand) held() *Agent {
	if o.absent() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.agent != nil && o.agent.bound() {
		return o.agent
	}
	return nil
}

// NodeID returns the node ID, from 0; -1 before the first claim. The node ID changes if
// another process took the previous one while this process slept.
func (o *OnDemand) NodeID() int {
	if a := o.held(); a != nil {
		return a.NodeID()
	}
	return wholePool
}

// Pool returns the name of the pool.
func (o *OnDemand) Pool() string {
	if o.absent() {
		return ""
	}
	return o.cfg.Pool
}

// Lease returns the lease if, by each of the clocks, it may be relied on now. It sends no
// request: if the error is ErrSuspended or ErrLost, call Refresh. After Close the error
// is ErrClosed. Any time may pass between the check and an effect elsewhere: the resource
// should compare Version.
func (o *OnDemand) Lease() (Lease, error) {
	if err := o.Err(); err != nil {
		return Lease{}, err
	}
	a := o.held()
	if a == nil {
		return Lease{}, fmt.Errorf("%w: no node ID of pool %q is held yet: call Refresh", ErrSuspended, o.cfg.Pool)
	}
	return a.Lease()
}

// Left returns the shortest time until the deadline by any of the clocks; see
// [OnDemand]. It is not positive once the deadline has passed, and before the first
// claim. Left sends no request; call Lease to check whether the lease may be relied on.
func (o *OnDemand) Left() time.Duration {
	if a := o.held(); a != nil {
		return a.left()
	}
	return 0
}

// Timeline returns the timeline from which generators take their timestamps. The method
// makes the agent a [snowflake.Node].
func (o *OnDemand) Timeline() *snowflake.Timeline {
	if o.absent() {
		return nil
	}
	return o.timeline
}

// Generator calls Refresh and returns a generator of the pool's IDs. It reads the pool's
// layout before ctx ends. Keep the generator, and call Refresh before each use.
func (o *OnDemand) Generator(ctx context.Context, opts ...snowflake.Option) (*snowflake.Generator, error) {
	if err := o.Refresh(ctx); err != nil {
		return nil, err
	}
	wait, stop := inTime(ctx)
	defer stop()
	select {
	case o.making <- struct{}{}:
	case <-wait.Done():
		return nil, o.late(context.Cause(wait))
	}
	defer func() { <-o.making }()
	wait, giveUp := context.WithCancelCause(wait)
	defer giveUp(nil)
	o.mu.Lock()
	o.deciding, o.giveUp = wait, giveUp
	closed := o.closed
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.deciding, o.giveUp = nil, nil
	}()
	if closed { // closed after Refresh, when Close did not yet see this call
		return nil, o.closedError()
	}
	g, err := snowflake.New(o, opts...)
	switch {
	case err == nil || wait.Err() == nil:
		return g, err
	case errors.Is(context.Cause(wait), ErrClosed):
		return nil, context.Cause(wait)
	}
	return nil, o.late(err)
}

// decideLayout is for generators on the timeline; see Agent.decideLayout.
func (o *OnDemand) decideLayout(want *snowflake.Layout) (snowflake.Layout, error) {
	o.mu.Lock()
	a, ctx := o.agent, o.deciding
	o.mu.Unlock()
	switch {
	case a == nil || !a.bound(): // the layout is read after a claim (S1): see Agent.decideLayout
		return snowflake.Layout{}, fmt.Errorf("%w: no node ID of pool %q is held yet: make the generator with OnDemand.Generator, or call Refresh before", ErrSuspended, o.cfg.Pool)
	case ctx == nil:
		ctx = a.life
	}
	return a.decideLayoutIn(ctx, want)
}

// Done returns a channel that Close closes. A loss does not close it, since Refresh claims
// another node ID.
func (o *OnDemand) Done() <-chan struct{} {
	if o.absent() {
		return ended
	}
	return o.done
}

// Err returns nil until Close is called, and then ErrClosed.
func (o *OnDemand) Err() error {
	if o.absent() {
		return errNoOnDemand
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.closedError()
	}
	return nil
}

func (o *OnDemand) closedError() error {
	return fmt.Errorf("%w: the on-demand agent of pool %q", ErrClosed, o.cfg.Pool)
}

// ServeHTTP reports whether the process should keep running: it answers 200 until Close
// is called, with the state of the lease in JSON. Before the first use, that state is
// "idle".
func (o *OnDemand) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h, _, _ := o.health()
	h.write(w, o.Err() == nil)
}

// Ready returns a handler that reports whether IDs can be made now without a Refresh.
// With ?need=lease in the URL it reports whether the lease may be relied on.
func (o *OnDemand) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ready, ids := o.health()
		if r == nil || r.URL == nil || r.URL.Query().Get("need") != "lease" {
			ready = ids
		}
		h.write(w, ready)
	})
}

func (o *OnDemand) health() (h health, held, ids bool) {
	h = health{Status: "idle", Pool: o.Pool(), NodeID: wholePool}
	if a := o.held(); a != nil {
		h, _, held, ids = a.health()
	}
	if err := o.Err(); err != nil {
		h.Status, h.Error = "closed", err.Error()
	}
	return h, held, ids
}

// Close stops ID making, ends the calls of Refresh and Generator, and releases the node
// ID if it is held, within 3 s. An error means that the release was not confirmed; the
// node ID then stays taken until the lease expires. Close may be called more than once.
func (o *OnDemand) Close() error {
	if o.absent() {
		return errNoOnDemand
	}
	return o.close()
}

func (o *OnDemand) shutdown() error {
	// Fence before anything is sent, as Agent.shutdown does.
	copied := o.timeline.Copied()
	last := o.timeline.Close()
	copied = copied || o.timeline.Copied() // the snapshot was made just before the fence
	o.mu.Lock()
	o.closed = true
	f := o.flight
	close(o.done)
	if o.giveUp != nil {
		o.giveUp(o.closedError())
	}
	o.mu.Unlock()
	if f != nil { // no renewal and no claim is sent after the release
		f.cancel(o.closedError())
		limit := time.NewTimer(releaseBudget)
		defer limit.Stop()
		select {
		case <-f.done:
		case <-limit.C:
			return fmt.Errorf("lease: pool %q: a request to the store does not end, so that the node ID is not released and rests until its lease expires", o.cfg.Pool)
		}
	}
	o.mu.Lock()
	a := o.agent
	o.mu.Unlock()
	if a == nil {
		return nil
	}
	err := a.putDown(last, copied)
	a.stop()
	a.background.Wait()
	a.events.drain()
	a.hangUp()
	return err
}

// putDown releases everything that an on-demand agent may hold when it is closed.
func (a *Agent) putDown(last time.Time, copied bool) (err error) {
	a.mu.Lock()
	a.closing = true
	t := a.term
	if copied && t != nil { // a release would free milliseconds that the original may stamp
		a.loseNow(t, a.copied())
	}
	over := a.over
	a.mu.Unlock()
	if u := a.pending(); u != nil && !copied { // the claim was never bound, so nothing was stamped
		ctx, cancel := context.WithTimeout(context.Background(), renewLimit)
		defer cancel()
		err = a.abandon(ctx, u.node, u.session)
	}
	// An expired lease needs no release: anyone may claim it.
	if t != nil && over == nil && protocol.Latest(t.Expires(), t.Lease.ReservedUntil).After(a.clock.Wall()) {
		err = errors.Join(err, a.release(t, last))
	}
	return err
}
