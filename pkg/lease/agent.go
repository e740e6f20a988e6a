package lease

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Provider provides this process with a node ID. [*Agent] leases a node ID;
// leasefixed.Node has a fixed node ID, without a lease. Code that takes a Provider works
// with both types.
type Provider interface {
	snowflake.Node
	http.Handler // reports whether the process should keep running, for health checks

	// NodeID returns the node ID, from 0.
	NodeID() int
	// Lease returns the lease if the node ID may be relied on now. If Lease.Fenced is true,
	// let the resource compare Version; otherwise Version is not a fencing token.
	Lease() (Lease, error)
	// Ready reports whether IDs can be made now; see [Agent.Ready].
	Ready() http.Handler
	// Done returns a channel that is closed when the process no longer has the node ID;
	// Err then returns the reason.
	Done() <-chan struct{}
	Err() error
	// Close ends ID making, and releases a leased node ID.
	Close() error
}

var _ Provider = (*Agent)(nil)

func init() {
	siblings.BeforeResume = func(agent any, fn func()) { agent.(*Agent).beforeResume(fn) }
	siblings.Unrenewed = func(agent any) time.Duration { return agent.(*Agent).unrenewed() }
}

// Agent leases one node ID for this process and keeps it. [Start] returns an Agent. It
// implements [snowflake.Node], and all of its methods are safe for concurrent use.
//
// A nil or zero Agent behaves like an agent that has ended: Done is closed, methods that
// return an error return ErrClosed, and node IDs are -1.
type Agent struct {
	cfg Config
	// givenTask is Config.Task as the user set it. A task name that the agent detected does
	// not count against the 512 bytes for the user's text.
	givenTask string
	clock     Clock
	timeline  *snowflake.Timeline
	layout    poolLayout
	events    outlets
	pool      protocol.PoolItem // as last read; see pool.go
	hinted    bool              // pool was read from a hint card
	stale     bool              // a node ID is marked for a widening newer than pool
	denied    bool              // this role may not write the pool's item
	narrow    time.Duration     // when the pool could not be widened, on the monotonic clock; 0 if it never happened
	checked   bool              // the store is known to be able to keep leases
	compared  exchange          // the clocks when the store's clock last agreed; zero if it was never asked
	napping   *naps             // the additional state of an on-demand agent; else nil
	growing   growth

	life       context.Context // ends when the agent closes
	background sync.WaitGroup

	mu        sync.Mutex
	term      *tenure.Term // nil before the first claim
	begun     bool         // not_before has passed
	suspended bool         // the suspension was announced
	sentHeld  bool         // the last renewal was sent before the deadline
	stepped   bool         // renewals may be in step with a fleet: see inStep
	outage    tenure.Outage
	ceiling   snowflake.Ceiling // the timeline's ceiling
	over      error             // the reason why this term ended; nil while it may be renewed
	closing   bool
	starting  bool // Start has not returned
	metadata  description
	ecs       ecsWord
	err       error // the reason why the agent ended; nil while it runs
	done      chan struct{}
	watchdog  *time.Timer

	nudged  chan struct{}      // filled by RenewNow; has room for one request
	stop    context.CancelFunc // ends the loop
	stopped chan struct{}      // the loop has ended
	close   func() error       // shuts down at the first call
	hangUp  func()             // closes idle connections of a store that Start opened
}

// errNoAgent is returned by a nil or zero Agent.
var errNoAgent = fmt.Errorf("%w: this Agent is nil or zero: lease.Start returns one", ErrClosed)

// ended is the closed channel that Done returns for a nil or zero agent.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// absent reports whether a is nil or zero: neither Start nor OnDemand created it.
func (a *Agent) absent() bool { return a == nil || a.done == nil }

// NodeID returns the node ID, from 0. It is constant while the agent lives, unless
// Config.OnLost is Reacquire. After a loss, NodeID still returns the lost node ID; call
// Lease to check whether the node ID is held.
func (a *Agent) NodeID() int { return a.lease().NodeID }

// Pool returns the name of the pool.
func (a *Agent) Pool() string {
	if a.absent() {
		return ""
	}
	return a.cfg.Pool
}

// lease returns the last known lease, held or not.
func (a *Agent) lease() Lease {
	if a.absent() {
		return Lease{NodeID: wholePool}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return Lease(a.term.Lease.Clone())
}

// Lease returns the lease if it may be relied on now, by the monotonic clock. Otherwise
// the error is ErrSuspended, ErrLost or ErrClosed. Any time may pass between the check
// and an effect elsewhere: if possible, the resource should compare Version, the fencing
// token.
func (a *Agent) Lease() (Lease, error) {
	if a.absent() {
		return Lease{}, errNoAgent
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch now := a.clock.Monotonic(); {
	case a.err != nil:
		return Lease{}, a.err
	case a.closing:
		return Lease{}, ErrClosed
	case a.over != nil:
		return Lease{}, a.over
	case a.timeline.Copied():
		return Lease{}, a.copied()
	case a.earlyBy() > 0:
		return Lease{}, fmt.Errorf("%w: node %d of pool %q is reserved for its last holder until %s", ErrSuspended, a.term.Lease.NodeID, a.cfg.Pool, protocol.Stamp(a.term.Lease.NotBefore))
	case !a.term.Held(now):
		return Lease{}, fmt.Errorf("%w: node %d of pool %q was not confirmed in time, %v ago", ErrSuspended, a.term.Lease.NodeID, a.cfg.Pool, (now - a.term.Deadline).Round(time.Millisecond))
	case a.napping != nil && a.leftNow() <= 0:
		return Lease{}, fmt.Errorf("%w: node %d of pool %q was not confirmed in time, %v ago by the wall clock", ErrSuspended, a.term.Lease.NodeID, a.cfg.Pool, -a.leftNow().Round(time.Millisecond))
	}
	return Lease(a.term.Lease.Clone()), nil
}

// copied returns the error for a node ID that is lost because the machine was restored
// from a snapshot; see [snowflake.Timeline.Copied].
func (a *Agent) copied() error {
	return fmt.Errorf("%w: this machine was restored from a snapshot, and node %d of pool %q may be a copy's as well", ErrLost, a.term.Lease.NodeID, a.cfg.Pool)
}

// Left returns the time until the deadline, which a confirmed renewal extends. It is not
// positive once the deadline has passed. Use Left to act before the deadline; call Lease
// to check whether the lease may be relied on.
func (a *Agent) Left() time.Duration {
	if a.absent() {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.term.Deadline - a.clock.Monotonic()
}

// IDsLeft returns how long generators on this agent can make IDs if no other renewal is
// confirmed, as in an outage of the table that begins now. It is not positive once the
// generators have stopped. Until then it is at least Left; for a lease that has grown, it
// can be hours.
func (a *Agent) IDsLeft() time.Duration {
	if a.absent() {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idsLeftNow()
}

// idsLeftNow is IDsLeft for a caller that holds mu. After a loss or Close, no reservation helps.
func (a *Agent) idsLeftNow() time.Duration {
	left := a.term.IDDeadline - a.clock.Monotonic()
	if a.over != nil || a.closing || a.timeline.Copied() {
		left = min(left, 0)
	}
	return left
}

// early returns how long, by this machine's clock, the node ID is still reserved for its
// last holder. It is not positive once the reservation has passed.
func (a *Agent) early() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.earlyBy()
}

// earlyBy is early for a caller that holds mu. The reservation may end later than the
// last holder's lease. After a forced release, the last holder may still rely on the node
// ID, so the next holder must wait until the reservation ends. Once earlyBy has found
// that the reservation has ended, it returns 0 even if the wall clock steps back.
func (a *Agent) earlyBy() time.Duration {
	if !a.begun {
		left := a.term.Lease.NotBefore.Sub(a.clock.Wall())
		a.begun = left <= 0
		return left
	}
	return 0
}

// tooEarly reports whether the reservation that the claim took over ends so late that the
// node ID can only have been claimed while the wall clock was ahead. The caller holds mu.
func (a *Agent) tooEarly(wall time.Time) bool {
	return a.term.Lease.NotBefore.Sub(wall) > a.latestStart()
}

// latestStart returns how long a node ID may still be reserved for its last holder if the
// clock was within the tolerance at the claim, and is now.
func (a *Agent) latestStart() time.Duration { return a.cfg.ClaimGuard + 2*a.cfg.timings().MaxSkew() }

// Timeline returns the timeline from which generators take their timestamps. The method
// makes the agent a [snowflake.Node].
func (a *Agent) Timeline() *snowflake.Timeline {
	if a.absent() {
		return nil
	}
	return a.timeline
}

// Done returns a channel that is closed when the agent ends, because its node ID is lost
// or Close was called. The channel stays open during a suspension.
func (a *Agent) Done() <-chan struct{} {
	if a.absent() {
		return ended
	}
	return a.done
}

// Err returns nil until Done is closed, and then an error that wraps ErrLost or ErrClosed
// and describes the reason.
func (a *Agent) Err() error {
	if a.absent() {
		return errNoAgent
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// end ends the agent, unless it has already ended.
func (a *Agent) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endNow(err)
}

// endNow is end for a caller that holds mu.
func (a *Agent) endNow(err error) {
	if a.err == nil {
		a.err = err
		close(a.done)
	}
}
