package demo

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/ui"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Board is the state of the running demo: the counts, the holders and the latest news. The
// readers of the tasks' pipes, the director and the watcher update it, and views take
// snapshots. It is safe for concurrent use.
type Board struct {
	opts Options
	tell func(News) // passes news to the view at once, in order

	mu       sync.Mutex
	began    time.Time // zero until the fleet is started
	sum      Summary
	disorder int // IDs that were not above the previous ID of the same task
	seen     seen
	tasks    map[string]*taskState
	leases   []lease.Lease // as last read from the table
	leader   string        // the task with the oldest session among the leases; empty: none yet
	out      time.Time     // when DynamoDB was killed; zero: it is running
	news     []News        // the latest
	rate     meter
	history  []float64 // the rate at each sample
	page     *ui.Server
	pageURL  string
}

// taskState is the known state of one process, alive or dead.
type taskState struct {
	node     int // -1: none
	status   string
	gaveBack int // the node ID that it released last, plus one; 0: none since its last claim
	claims   int
	waits    bool          // it waits for a node ID, and the news has reported that
	clockOff time.Duration // how far its clock was moved
	lastID   snowflake.ID
	member   bool      // whether it is a member of the cluster
	lastIDs  time.Time // when its last IDs arrived
	born     time.Time // when it claimed its node ID
	idsUntil time.Time // until when it can make IDs without another answer from DynamoDB
	rate     meter
}

// The states of a task. Its node ID is shown with the same words.
const (
	taskStarting  = "starting"
	taskHolding   = "held"
	taskSuspended = "suspended"
	taskFrozen    = "frozen"
	taskDead      = "dead"
	taskLost      = "lost"
)

// News is one thing that happened.
type News struct {
	At   time.Duration // since the fleet was started
	Kind string        // such as "kill -9" or "lost"
	Text string
}

func newBoard(o Options, tell func(News)) *Board {
	return &Board{opts: o, tell: tell, seen: seen{}, tasks: map[string]*taskState{}, sum: Summary{Tasks: o.Tasks}}
}

const (
	keptNews    = 100
	keptHistory = 200
)

// Tell adds news to the board and passes them to the view and the page.
func (b *Board) Tell(kind, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.say(kind, format, args...)
}

// say does what Tell does, for callers that hold mu.
func (b *Board) say(kind, format string, args ...any) {
	n := News{Kind: kind, Text: fmt.Sprintf(format, args...)}
	if !b.began.IsZero() {
		n.At = time.Since(b.began)
	}
	if b.news = append(b.news, n); len(b.news) > keptNews {
		b.news = slices.Delete(b.news, 0, 1)
	}
	b.tell(n)
	b.tellPage(n)
}

// begin sets the time from which the times of news are counted.
func (b *Board) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began = time.Now()
}

// started puts a new task on the board.
func (b *Board) started(name string, member bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[name] = &taskState{node: -1, status: taskStarting, member: member}
}

// ids compares a task's IDs with all earlier ones.
func (b *Board) ids(name string, ids []snowflake.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[name]
	for _, id := range ids {
		if id <= t.lastID {
			if b.disorder++; b.disorder == 1 {
				b.say("DISORDER", "%s made %d after %d", name, id, t.lastID)
			}
		}
		t.lastID = id
	}
	t.lastIDs = time.Now()
	twice := b.seen.add(ids)
	if twice > 0 && b.sum.Duplicates == 0 {
		b.say("DUPLICATE", "%s made IDs of node %d that were made before", name, ids[0].Node())
	}
	b.sum.Duplicates += twice
	b.sum.IDs += len(ids)
	t.rate.count += len(ids)
	b.rate.count += len(ids)
}

// event records an event of a task's agent.
func (b *Board) event(name string, e taskEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[name]
	now := time.Now()
	switch e.Kind {
	case lease.EventClaimed, lease.EventRenewed, lease.EventResumed:
		t.idsUntil = now.Add(e.IDsLeft)
	}
	switch e.Kind {
	case lease.EventClaimed:
		t.born = now
		b.sum.Claims++
		t.node, t.status, t.waits, t.gaveBack = e.Node, taskHolding, false, 0
		t.claims++
		b.say("claimed", "%s holds node %d, version %d", name, e.Node, e.Version)
	case lease.EventRenewed:
		b.sum.Renewals++
		if t.status == taskSuspended {
			t.status = taskHolding
		}
	case lease.EventSuspended:
		b.sum.Suspended++
		t.status = taskSuspended
		ids := "no IDs"
		if e.IDsLeft > 0 {
			ids = fmt.Sprintf("IDs for another %v", e.IDsLeft.Round(100*time.Millisecond))
		}
		b.say("suspended", "%s: the lease on node %d was not confirmed in time: %s", name, e.Node, ids)
	case lease.EventResumed:
		t.status = taskHolding
		b.say("resumed", "%s continues with node %d, version %d: no other task had it", name, e.Node, e.Version)
	case lease.EventLost:
		b.sum.Lost++
		t.node, t.status = -1, taskLost
		b.say("lost", "%s: %s", name, brief(e.Error, b.opts.Pool))
	case lease.EventReleased:
		t.node, t.gaveBack = -1, e.Node+1
		b.say("released", "%s released node %d", name, e.Node)
	case lease.EventWaiting:
		if !t.waits {
			t.waits = true
			b.say("waiting", "%s: %s", name, brief(e.Error, b.opts.Pool))
		}
	case eventBehind:
		b.say("no IDs", "%s: its clock is behind what it stamped before", name)
	case eventCaughtUp:
		b.say("IDs again", "%s: its clock has caught up", name)
	case lease.EventNotReleased:
		b.say("not freed", "%s could not release node %d, which stays taken until its lease expires", name, e.Node)
	case lease.EventCorrupt, lease.EventWarning:
		b.say(string(e.Kind), "%s: %s", name, brief(e.Error, b.opts.Pool))
	}
}

// acted records an action of the director on a task. status and count may be empty.
func (b *Board) acted(name, status string, count func(*Summary), kind, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if status != "" {
		b.tasks[name].status = status
	}
	if count != nil {
		count(&b.sum)
	}
	b.say(kind, format, args...)
}

// moved records that a task's clock was moved.
func (b *Board) moved(name string, by time.Duration, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[name].clockOff += by
	b.say("clock", format, args...)
}

// gone records that a task has ended, and reports whether it ever had a node ID.
func (b *Board) gone(name string) (had bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[name]
	t.node, t.status = -1, taskDead
	return t.claims > 0
}

// holds reports whether a task has a node ID now, according to its last message.
func (b *Board) holds(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tasks[name].status == taskHolding
}

// anySuspended reports whether a task waits for confirmation that it still has its node ID.
func (b *Board) anySuspended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tasks {
		if t.status == taskSuspended {
			return true
		}
	}
	return false
}

// nodeOf names the node ID of a task.
func (b *Board) nodeOf(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("node %d", b.tasks[name].node)
}

// table records the leases as read from the table.
func (b *Board) table(leases []lease.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases = leases
	if name := leaderOf(leases, time.Now()); name != "" && name != b.leader {
		after := ""
		if b.leader != "" {
			after = ", after " + b.leader
		}
		b.say("leads", "%s: its session is the oldest of all that are alive%s", name, after)
		b.leader = name
	}
}

// leaderOf elects a leader from the table's leases, as the members do.
func leaderOf(leases []lease.Lease, now time.Time) (name string) {
	lowest := ""
	for _, l := range leases {
		m, ok := cluster.MemberOf(l)
		if ok && l.State(now) == lease.Held && (lowest == "" || m.SessionID < lowest) {
			lowest, name = m.SessionID, m.Name
		}
	}
	return name
}
