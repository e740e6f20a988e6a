package growth

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// Config describes a fleet.
type Config struct {
	Size, Expect int // of the pool
	Timings      tenure.Timings
	// Functions makes the reaper and the poolmetric function run each minute. Their reads are
	// not counted, since docs/cost.md lists them in a separate table. Without the functions,
	// the holders take turns at counting the pool, and their reads are counted.
	Functions bool
	// Life draws how long a process lives before it crashes. A crashed process is replaced at
	// once.
	Life func(*rand.Rand) time.Duration
	Seed uint64
}

// Sum contains the counts for a span of time.
type Sum struct {
	Writes, Units    float64 // request units
	Claims, Renewals int
	Crashes, Counts  int
	Waits            int // searches that found no node ID
	// Live is the total time, in seconds, for which running processes had their node IDs.
	// Taken also includes the time for which the node IDs of crashed processes rested. Worst
	// is the largest ratio, at any moment, of taken node IDs to running processes.
	Live, Taken, Worst float64
	Rest, LongestRest  time.Duration // the sum of all rests, and the longest rest
	LongestWait        time.Duration // the longest time that a process waited for its node ID
}

// Dollars returns the price of the requests, by the prices of docs/cost.md.
func (s Sum) Dollars(write, read float64) float64 { return (s.Writes*write + s.Units*read) / 1e6 }

// Fleet contains the processes and the table.
type Fleet struct {
	Config
	Sum
	// Wrong is the first violation of an invariant.
	Wrong error

	dice      *rand.Rand
	now       time.Duration
	queue     queue
	queued    int
	pool      protocol.PoolItem
	items     []protocol.Lease
	live      []*process
	resting   int
	accounted time.Duration
	version   int // the deployed version
}

const (
	itemUnits  = 1  // read units of a strongly consistent read of the pool's item
	groupUnits = 25 // read units of a strongly consistent read of a group: 256 items of 400 bytes
)

// epoch is the time at which the fleets begin.
var epoch = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// New returns a fleet without processes.
func New(c Config) (*Fleet, error) {
	for _, err := range c.Timings.Complete() {
		return nil, err
	}
	f := &Fleet{Config: c, dice: rand.New(rand.NewPCG(c.Seed, 20))}
	// Open as many groups as leasepool.Spec does: all of them if there are up to four.
	open := (protocol.PoolItem{Size: c.Size}).Groups()
	if open > 4 {
		open = max(protocol.GroupsFor(protocol.PoolItem{Size: c.Size}, c.Expect), 1)
	}
	f.pool, _ = protocol.CreatePool{Pool: "orders", Size: c.Size, OpenGroups: open, At: epoch, Floor: epoch, Expect: c.Expect}.Apply(nil)
	f.Timings = c.Timings.In(f.pool)
	for n := range c.Size {
		l, _ := protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: n}, Floor: epoch}.Apply(nil)
		f.items = append(f.items, l)
	}
	if c.Functions {
		f.in(time.Minute, f.poolmetric)
	}
	return f, nil
}

// Run lets virtual time pass until d after the start of the fleet.
func (f *Fleet) Run(d time.Duration) {
	for len(f.queue) > 0 && f.queue[0].at <= d && f.Wrong == nil {
		e := heap.Pop(&f.queue).(event)
		f.now = e.at
		e.do()
	}
	f.now = d
	f.account()
}

// Take returns the counts since the last Take.
func (f *Fleet) Take() Sum {
	f.account()
	s := f.Sum
	f.Sum = Sum{}
	return s
}

// Start starts processes at random times from now on, within the given time.
func (f *Fleet) Start(processes int, within time.Duration) {
	for range processes {
		f.in(f.some(within), f.start(f.version))
	}
}

// Deploy starts as many processes as are running, and stops the old ones after overlap.
func (f *Fleet) Deploy(overlap time.Duration) {
	f.version++
	f.Start(len(f.live), time.Minute)
	f.in(overlap, func() {
		for _, p := range f.live {
			if p.version < f.version {
				f.in(f.some(time.Minute), p.stop)
			}
		}
	})
}

// Kill crashes all processes at once. Each is replaced immediately.
func (f *Fleet) Kill() {
	for _, p := range append([]*process(nil), f.live...) {
		p.crash()
	}
}

func (f *Fleet) wall() time.Time { return epoch.Add(f.now) }

func (f *Fleet) some(d time.Duration) time.Duration {
	return time.Duration(f.dice.Float64() * float64(d))
}

// account adds the time since its last call to Live and Taken, once for each process or node
// ID.
func (f *Fleet) account() {
	d := (f.now - f.accounted).Seconds()
	f.accounted = f.now
	f.Live += d * float64(len(f.live))
	f.Taken += d * float64(len(f.live)+f.resting)
	if n := len(f.live); n > 0 && d > 0 {
		f.Worst = max(f.Worst, float64(n+f.resting)/float64(n))
	}
}

// write applies a write to the table and returns the result.
func (f *Fleet) write(w protocol.Write) protocol.Result {
	f.Writes++
	old := &f.items[w.Item().NodeID]
	l, ok := w.Apply(old)
	if !ok {
		return protocol.Result{Lease: old}
	}
	*old = l
	return protocol.Result{Applied: true, Lease: &l}
}

// count returns how many node IDs of the open groups are held, and how many are cooling or
// expired.
func (f *Fleet) count() (held, cooling int) {
	_, open := f.pool.Open()
	for _, l := range f.items[:open] {
		switch l.State(f.wall()) {
		case protocol.Held:
			held++
		case protocol.Cooling, protocol.Expired:
			cooling++
		case protocol.Free, protocol.Retired:
		}
	}
	return held, cooling
}

// measured stores a measurement in the pool's item, and reports whether it was stored.
func (f *Fleet) measured(seen *protocol.Measured, m protocol.Measured) (stored bool) {
	p, ok := protocol.Measure{Pool: "orders", Seen: seen, Measured: m}.Apply(&f.pool)
	if ok {
		f.pool = p
	}
	return ok
}

// poolmetric runs the poolmetric function, now and every minute. A minute is less than half
// of the shortest time for which a measurement is valid.
func (f *Fleet) poolmetric() {
	held, cooling := f.count()
	f.measured(f.pool.Measured, protocol.Measured{Held: held, Cooling: cooling, At: f.wall(), Valid: 10 * time.Minute})
	f.in(time.Minute, f.poolmetric)
}

// rested ends the rest of a crashed process's node ID. From now on, the node ID can be
// claimed.
func (f *Fleet) rested(l protocol.Lease) {
	f.account()
	f.resting--
	c := f.Timings.Claim(protocol.Key{Pool: "orders", NodeID: l.NodeID}, "", f.wall(), f.pool)
	before := f.Timings.Claim(protocol.Key{Pool: "orders", NodeID: l.NodeID}, "", f.wall().Add(-time.Millisecond), f.pool)
	cur := &f.items[l.NodeID]
	if _, ok := c.Apply(cur); cur.Version == l.Version && !ok {
		f.Wrong = fmt.Errorf("node %d cannot be claimed after its rest: %+v", l.NodeID, cur)
	}
	if _, ok := before.Apply(&l); ok {
		f.Wrong = fmt.Errorf("node %d can be claimed before the end of its rest: %+v", l.NodeID, l)
	}
}

// reap handles an expired lease as the reaper function does.
func (f *Fleet) reap(l protocol.Lease) {
	f.write(protocol.Reap{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Holder: l.Holder, Version: l.Version, Renewal: l.Renewal})
}

// event is an action that is due at a time.
type event struct {
	at time.Duration
	no int // among events that are due at the same time, the first queued comes first
	do func()
}

func (f *Fleet) in(d time.Duration, do func()) {
	f.queued++
	heap.Push(&f.queue, event{f.now + d, f.queued, do})
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].no < q[j].no
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
