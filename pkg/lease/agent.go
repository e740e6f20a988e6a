package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
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
