package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// process is one run of a program on a machine.
type process struct {
	*machine
	number   int
	task     string       // the name of its task
	release  lease.Config // the configuration with which it was deployed
	born     time.Time
	region   string        // the Region that it uses; "" for the Region of the table
	misfit   bool          // it requests a layout that differs from the pool's
	copyOf   *process      // the original, if the process is a copy; otherwise nil
	origin   *origin       // of a copy
	dead     chan struct{} // closed when it is killed
	once     sync.Once
	agent    *lease.Agent
	ids      atomic.Pointer[snowflake.Generator]
	member   atomic.Pointer[member] // of the cluster
	led      atomic.Int64           // the number of seconds for which a listener has worked as the leader although its node is down
	entry    atomic.Pointer[entry]  // of the directory
	pair     atomic.Pointer[pair]
	copyNext atomic.Bool  // its next renewal makes a copy of it
	hadCopy  atomic.Bool  // it was copied
	rightly  atomic.Bool  // its wall clock was right when it claimed its node ID
	stopped  atomic.Bool  // it has waited while its machine was paused
	lag      atomic.Int64 // ns by which its clocks are behind those of its machine
	sinks    atomic.Int64 // log lines and hooks that are blocked now
	stamped  atomic.Pointer[stamped]

	belief history.Event // as last witnessed; guarded by World.beliefs
	held   history.Event // the node ID and version that it last held; guarded by World.beliefs
	since  time.Time     // when its belief last changed; guarded by World.beliefs

	mu      sync.Mutex
	said    lease.EventKind // the last event that shows whether the lease is held
	saidAt  time.Time       // when the last event was told
	renewed time.Time       // when a write of its lease was last applied
	answers [2]time.Time    // when the last two renewals were answered, latest first
}

// stamped has the latest millisecond of the IDs that a process has made with a node ID.
type stamped struct {
	node int
	ms   int64
}

// stamps records the millisecond of an ID.
func (p *process) stamps(node int, ms int64) {
	for {
		old := p.stamped.Load()
		if old != nil && old.node == node && old.ms >= ms || p.stamped.CompareAndSwap(old, &stamped{node, ms}) {
			return
		}
	}
}

func (w *World) newProcess(m *machine) *process {
	p := &process{machine: m, number: w.newNumber(), dead: make(chan struct{}), born: time.Now(), release: w.Plan.Releases[w.release.Load()]}
	p.misfit = w.Plan.has("layouts") && m.intN(3) == 0
	return p
}

// behind returns how far the process's clocks are behind those of its machine.
func (p *process) behind() time.Duration { return time.Duration(p.lag.Load()) }

// holding returns the node ID and the version that the process last held, no matter whether
// it may still rely on them.
func (p *process) holding() (node int, version int64) {
	p.World.beliefs.Lock()
	defer p.World.beliefs.Unlock()
	return p.held.Node, p.held.Version
}

// beliefFor returns how long ago the process's belief last changed.
func (p *process) beliefFor() time.Duration {
	p.World.beliefs.Lock()
	defer p.World.beliefs.Unlock()
	return time.Since(p.since)
}

// confirmed returns when a write of the process's lease was last applied.
func (p *process) confirmed() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

func (p *process) confirm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed = time.Now()
}

// answered records that a renewal of the process was answered.
func (p *process) answered(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = [2]time.Time{at, p.answers[0]}
}

// answeredTwiceSince reports whether two renewals were answered after the given time, so
// that the second of them was sent after the answer to the first had arrived.
func (p *process) answeredTwiceSince(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[1].After(at)
}

// kill ends the process immediately: from then on, it sends nothing, receives nothing and
// makes no IDs.
func (p *process) kill() { p.once.Do(func() { close(p.dead) }) }

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// stop reports whether the machine is paused for a process at the given place. If so, it
// first waits until the machine resumes or the process is killed.
func (p *process) stop(at string) bool {
	resume := p.paused(at)
	if resume == nil {
		return false
	}
	p.stopped.Store(true)
	p.World.count(func(c *Counts) { c.Pauses[at]++ })
	select {
	case <-resume:
	case <-p.dead:
	}
	return true
}

var errDead = errors.New("the process is dead")

// wire is a process's connection to the network.
type wire struct {
	p    *process
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. A pause can stop the process before the request
// is sent, after the times in the request have been read from the clocks, and before the
// answer is received.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if res, done, err := w.p.translate(r); done {
		return res, err
	}
	if err := w.p.asks(r); err != nil {
		return nil, err
	}
	if w.p.stop(sending) && r.Context().Err() != nil {
		// The time-out passed during the pause. In reality, the request may or may not be
		// sent all the same.
		if w.p.intN(2) == 0 && !w.p.isDead() {
			late := r.Clone(context.WithoutCancel(r.Context()))
			w.p.background.Go(func() { w.sendLate(late) })
		}
		return nil, r.Context().Err()
	}
	if w.p.isDead() {
		return nil, errDead
	}
	w.p.poison(r)
	w.p.inStep(r)
	w.p.sends(r)
	res, err := w.next.RoundTrip(r)
	if err == nil && w.p.pausing(hearing) && w.p.intN(2) == 0 {
		err = receive(res) // so that the whole answer has arrived before the process is stopped
	}
	w.p.stop(hearing)
	if w.p.isDead() {
		if err == nil {
			_ = res.Body.Close()
		}
		return nil, errDead
	}
	if err == nil {
		w.p.back(res)
	}
	return res, err
}

// receive reads an answer to its end.
func receive(res *http.Response) error {
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

func (w *wire) sendLate(r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	w.p.World.count(func(c *Counts) { c.SentLate++ })
	if res, err := w.next.RoundTrip(r.WithContext(ctx)); err == nil {
		_ = res.Body.Close()
	}
}
