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

// process is one life of a program on a machine.
type process struct {
	*machine
	number   int
	task     string       // that it goes by
	release  lease.Config // that it is of
	born     time.Time
	region   string        // that it asks; "": that of the table
	misfit   bool          // asks for another layout than the pool's
	copyOf   *process      // that it is a copy of; nil: it is none
	origin   *origin       // of a copy
	dead     chan struct{} // closed when it is killed
	once     sync.Once
	agent    *lease.Agent
	ids      atomic.Pointer[snowflake.Generator]
	member   atomic.Pointer[member] // of the cluster
	led      atomic.Int64           // for how many seconds a listener has led for a node that is down
	entry    atomic.Pointer[entry]  // of the directory
	pair     atomic.Pointer[pair]
	copyNext atomic.Bool  // it is copied with its next renewal
	hadCopy  atomic.Bool  // it was copied
	stopped  atomic.Bool  // it has waited while its machine was paused
	lag      atomic.Int64 // ns by which its clocks are behind its machine's
	sinks    atomic.Int64 // log lines and hooks that block now

	belief history.Event // as last witnessed; guarded by World.beliefs
	held   history.Event // the node ID and version that it had last; guarded by World.beliefs
	since  time.Time     // when that was another one; guarded by World.beliefs

	mu      sync.Mutex
	said    lease.EventKind // the last event about whether the lease is held
	saidAt  time.Time       // when anything was said last
	renewed time.Time       // when a write of its lease was last done
	answers [2]time.Time    // when the last two renewals were answered, the last one first
}

func (w *World) newProcess(m *machine) *process {
	p := &process{machine: m, number: w.newNumber(), dead: make(chan struct{}), born: time.Now(), release: w.Plan.Releases[w.release.Load()]}
	p.misfit = w.Plan.has("layouts") && m.intN(3) == 0
	return p
}

// behind is by how much the process's clocks are behind its machine's.
func (p *process) behind() time.Duration { return time.Duration(p.lag.Load()) }

// holding is the node ID and the version that the process has, whether it may rely on
// them or not.
func (p *process) holding() (node int, version int64) {
	p.World.beliefs.Lock()
	defer p.World.beliefs.Unlock()
	return p.held.Node, p.held.Version
}

// beliefFor is for how long the process has believed what it does.
func (p *process) beliefFor() time.Duration {
	p.World.beliefs.Lock()
	defer p.World.beliefs.Unlock()
	return time.Since(p.since)
}

// confirmed is when a write of its lease was last done.
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

// answered remembers that the process was told of a renewal.
func (p *process) answered(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = [2]time.Time{at, p.answers[0]}
}

// answeredTwiceSince reports whether two renewals were answered after a moment: the
// second one was sent knowing the first one's answer.
func (p *process) answeredTwiceSince(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers[1].After(at)
}

// kill ends the process immediately: it sends nothing, receives nothing,
// and makes no IDs after that.
func (p *process) kill() { p.once.Do(func() { close(p.dead) }) }

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// stop waits while the machine is paused, and reports whether it was.
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

// wire is a process's way to the network.
type wire struct {
	p    *process
	next http.RoundTripper
}

// RoundTrip stops before the request is sent, when all that it says was read from
// the clocks before, and before the answer is heard.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if res, done, err := w.p.translate(r); done {
		return res, err
	}
	if w.p.stop(sending) && r.Context().Err() != nil {
		// The time-out passed during the pause. Sent or given up: both happen.
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
	res, err := w.next.RoundTrip(r)
	if err == nil && w.p.pausing(hearing) && w.p.intN(2) == 0 {
		err = receive(res) // all of it is in the socket when the process is stopped
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
