package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
)

// onDemandTTL is the length of a lease on demand without --ttl.
const onDemandTTL = 5 * time.Minute

// keeper holds the node ID that a program runs with.
type keeper interface {
	Lease() (lease.Lease, error)
	Left() time.Duration
	Done() <-chan struct{}
	Err() error
	Close() error
}

// forOnDemand checks the flags for a lease on demand, sets their defaults, and returns
// the grace period.
func (t *terms) forOnDemand(cmd *cobra.Command, grace time.Duration) (time.Duration, error) {
	f := cmd.Flags()
	for flag, why := range map[string]string{
		"renew-every": "an on-demand lease has no heartbeat; it is renewed when less than a third of it is left",
		"max-ttl":     "an on-demand lease never grows",
		"max-reserve": "an on-demand lease never grows",
	} {
		if f.Changed(flag) {
			return 0, usagef("--%s %v: %s: leave --%s out, or --on-demand", flag, f.Lookup(flag).Value, why, flag)
		}
	}
	if !f.Changed("ttl") {
		t.ttl = onDemandTTL
	}
	if err := t.check(); err != nil {
		return 0, err
	}
	guard := t.guard
	if guard == 0 {
		guard = min(2*time.Second, t.ttl/5)
	}
	// SIGTERM must not be sent before a renewal has had time to succeed. The first attempt
	// starts when a third of the lease is left, and its answer may take a tenth of the
	// lease.
	most := t.ttl/3 - t.ttl/10 - guard
	switch {
	case most <= 0:
		return 0, usagef("--guard %v leaves no time to renew: with --on-demand and --ttl %v use less than %v", guard, t.ttl, most+guard)
	case grace == 0:
		return most / 2, nil
	case grace < 0 || grace > most:
		return 0, usagef("--grace %v: use up to %v; with --on-demand, --ttl %v and a guard of %v more would end the program before its lease is renewed", grace, most, t.ttl, guard)
	}
	return grace, nil
}

// onDemand keeps one node ID without heartbeats. After a loss, an on-demand agent would
// claim another node ID, but the program's environment still names the lost one. So a loss
// ends the program.
type onDemand struct {
	agent *lease.OnDemand
	held  lease.Lease
	life  context.Context // context of the renewals
	stop  context.CancelFunc
	heard func(lease.Event)
	lost  chan struct{}
	kept  sync.WaitGroup

	mu   sync.Mutex
	why  error
	late bool // the deadline had passed when the loss was noticed
}

// startOnDemand claims a node ID, and keeps it until Close or a loss.
func startOnDemand(ctx context.Context, cfg lease.Config) (*onDemand, error) {
	o := &onDemand{heard: cfg.OnEvent, lost: make(chan struct{})}
	o.life, o.stop = context.WithCancel(context.Background())
	cfg.OnEvent = func(e lease.Event) {
		if o.Err() != nil { // the event concerns a later lease, which the program does not use
			return
		}
		o.heard(e)
		if e.Kind == lease.EventLost {
			o.lose(e.Err)
		}
	}
	agent, err := lease.NewOnDemand(cfg)
	if err != nil {
		return nil, err
	}
	o.agent = agent
	if err := agent.Refresh(ctx); err != nil {
		return nil, errors.Join(err, agent.Close()) // also settles a claim in doubt
	}
	if o.held, err = agent.Lease(); err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	// Checking the time left costs no request. The interval bounds how long the program
	// can run on after a pause that only the wall clock shows.
	every := time.NewTicker(min(time.Second, cfg.TTL/30))
	o.kept.Go(func() {
		defer every.Stop()
		o.keep(every.C)
	})
	return o, nil
}

// keep checks the time left at each tick, including while a renewal is waiting for its
// answer.
func (o *onDemand) keep(tick <-chan time.Time) {
	var asking sync.Mutex
	for {
		select {
		case <-o.life.Done():
			return
		case <-tick:
		}
		// Invariant: only a lease that is still valid is renewed. An expired lease is not
		// resumed, because another process may have the node ID by now.
		if o.Left() <= 0 {
			o.heard(lease.Event{Kind: lease.EventSuspended})
			o.lose(fmt.Errorf("%w: node %d of pool %q was not renewed in time", lease.ErrSuspended, o.held.NodeID, o.held.Pool))
			return
		}
		if asking.TryLock() {
			o.kept.Go(func() {
				defer asking.Unlock()
				_ = o.agent.Refresh(o.life) // sends no request while more than a third of the lease is left; logs its own failures
			})
		}
	}
}

// lose records why the node ID was lost, and ends the renewals permanently.
func (o *onDemand) lose(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why != nil {
		return
	}
	o.why, o.late = why, o.agent.Left() <= 0
	o.stop()
	close(o.lost)
}

// Lease returns the lease that the program has.
func (o *onDemand) Lease() (lease.Lease, error) { return o.held, nil }

// Left returns the time until the deadline of the program's own lease.
func (o *onDemand) Left() time.Duration {
	left := o.agent.Left()
	// The lease is read after the time left, because that time may belong to another
	// lease, which the agent claimed after a loss.
	now, err := o.agent.Lease()
	switch {
	case err == nil && (now.NodeID != o.held.NodeID || now.Version != o.held.Version),
		err != nil && !errors.Is(err, lease.ErrSuspended): // suspended: no time is left, or the clock was set back
		return 0
	}
	return left
}

// Done is closed when the node ID is lost.
func (o *onDemand) Done() <-chan struct{} { return o.lost }

// Err returns why the node ID was lost, or nil.
func (o *onDemand) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// overdue reports whether another process may already have the node ID.
func (o *onDemand) overdue() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.late
}

// Close ends the renewals, and releases the node ID.
func (o *onDemand) Close() error {
	o.stop()
	o.kept.Wait() // nothing is renewed after the release
	return o.agent.Close()
}
