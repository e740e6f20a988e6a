package demo

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Snapshot is the board at one moment, for views.
type Snapshot struct {
	Options
	Summary
	Elapsed   time.Duration
	PerSecond float64
	History   []float64 // earlier values of PerSecond, oldest first
	NodeIDs   []NodeID
	Homeless  []string // live tasks that have no node ID
	Outage    bool
	Leader    string // the task that leads; empty: none yet
	PageURL   string // empty: none
	News      []News // oldest first
}

// NodeID is one node ID of the pool.
type NodeID struct {
	Node      int
	State     string // of the holder: held, suspended, frozen, dead; or of the item: free, held, expired, cooling
	Task      string // who holds it
	Version   int64
	PerSecond float64
	ClockOff  time.Duration // how far its task's clock was moved
}

// snapshot returns the present state. It joins each node ID's row of the table with
// the state of its holder's process.
func (b *Board) snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s := Snapshot{
		Options: b.opts, Summary: b.sum, Elapsed: now.Sub(b.began), PerSecond: b.rate.perSecond,
		History: slices.Clone(b.history), Outage: !b.out.IsZero(), Leader: b.leader, PageURL: b.pageURL, News: slices.Clone(b.news),
	}
	for _, l := range b.leases {
		n := NodeID{Node: l.NodeID, State: string(l.State(now)), Version: l.Version}
		if l.Holder != "" {
			n.Task = l.Task
			t := b.tasks[l.Task]
			// If a task has reported that it released the node ID, the leases were read earlier.
			if t != nil && t.gaveBack == l.NodeID+1 && t.node < 0 {
				n.State, n.Task = "free", ""
			} else if t != nil && (t.node == l.NodeID || t.status == taskDead) {
				n.State, n.PerSecond, n.ClockOff = t.status, t.rate.perSecond, t.clockOff
			}
		}
		s.NodeIDs = append(s.NodeIDs, n)
	}
	for _, name := range slices.SortedFunc(maps.Keys(b.tasks), byNumber) {
		if t := b.tasks[name]; t.node < 0 && t.status != taskDead {
			s.Homeless = append(s.Homeless, name)
		}
	}
	return s
}

// byNumber orders task-9 before task-10.
func byNumber(a, b string) int {
	number := func(s string) int {
		_, digits, _ := strings.Cut(s, "-")
		n, _ := strconv.Atoi(digits)
		return n
	}
	return number(a) - number(b)
}

// meter computes a slightly smoothed rate from a count.
type meter struct {
	count, counted int
	at             time.Time
	perSecond      float64
}

func (m *meter) sample(now time.Time) {
	if d := now.Sub(m.at).Seconds(); !m.at.IsZero() && d > 0 {
		m.perSecond += (float64(m.count-m.counted)/d - m.perSecond) / 2
	}
	m.counted, m.at = m.count, now
}

// sample ends the current interval of all rates and begins the next one.
func (b *Board) sample() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.rate.sample(now)
	if b.history = append(b.history, b.rate.perSecond); len(b.history) > keptHistory {
		b.history = slices.Delete(b.history, 0, 1)
	}
	for _, t := range b.tasks {
		t.rate.sample(now)
	}
}
