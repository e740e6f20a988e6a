package tenure

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// paper simulates a fleet of up to 65,528 agents and a table with DynamoDB's limits, in
// one goroutine and in virtual milliseconds. The same seed repeats it bit for bit. The
// real code makes the decisions: Guess, Search, Outlook, the writes' Apply and Term. The
// simulation itself only has the order of an agent's requests (as in Start, acquire and
// loop), its clocks, which are correct, and the behavior of the network and the table.
//
// Each agent waits for one thing at a time, so the queue of events is one list of
// agents for each millisecond.
type paper struct {
	paperCase
	dice   *rand.Rand
	config Timings
	now    int64 // ms since the start
	table  *paperTable
	pool   protocol.PoolItem
	card   protocol.PoolItem // what the hint cards show: the pool's item after the reaper's last run
	cards  []*paperPartition
	leases []protocol.Lease
	before []protocol.Lease  // each lease before its last write
	wrote  []int64           // when each lease was last written
	shown  []protocol.Lease  // the leases that eventual returns, reused for each read
	groups []*paperPartition // the partition of each group
	note   paperNote
	agents []paperAgent
	head   []int32 // the first agent in each millisecond's list, plus one
	tail   []int32
	born   int
	down   bool // the table answers only with errors
	unmet  int  // agents that want a node ID and do not hold one
	spent  paperCount
	rested []int64      // ms from the release of each node ID to its next claim
	second []paperCount // spent up to the end of each second
}

// paperCase describes one simulation.
type paperCase struct {
	agents, partitions int
	ttl                time.Duration // 0 means the default
	fresh              bool          // the pool was never used, so it has few open groups
	expect             int           // the expected number of holders, for which groups are open
	size               int           // the pool's size; 0 means the number of agents
	policy             policy
	seed               uint64
}

// policy is a way to retry and to spread renewals.
type policy struct {
	name    string
	backoff func(r *rand.Rand, n int) time.Duration
	jitter  func(r *rand.Rand, d time.Duration) time.Duration
	// If together is set, the pause before a first renewal is not drawn at random.
	together bool
}

// paperCount has the counts so far.
type paperCount struct {
	requests, throttled, failed int
	writes, refused             int
	renewals                    int     // the writes that are renewals
	reads                       float64 // units
	lost                        int
	told, left                  int // writes of the note, by waiting agents and by releases
}

// dollars returns DynamoDB's on-demand price in us-east-1; see docs/cost.md.
func (c paperCount) dollars() float64 { return (float64(c.writes)*0.625 + c.reads*0.125) / 1e6 }

func (c paperCount) minus(o paperCount) paperCount {
	return paperCount{c.requests - o.requests, c.throttled - o.throttled, c.failed - o.failed, c.writes - o.writes, c.refused - o.refused, c.renewals - o.renewals, c.reads - o.reads, c.lost - o.lost, c.told - o.told, c.left - o.left}
}

const (
	paperSlots = 1 << 17 // how far ahead an event may be, in ms: 131 s
	paperPool  = "p"
	// paperReaper is how often the reaper function writes the hint cards, in ms.
	paperReaper = 60_000
)

var paperDay = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func newPaper(c paperCase) *paper {
	w := &paper{paperCase: c, dice: rand.New(rand.NewPCG(c.seed, 0x7061706572)), table: newPaperTable(c.partitions)}
	w.config = Timings{TTL: c.ttl}
	if errs := w.config.Complete(); errs != nil {
		panic(errors.Join(errs...))
	}
	size, low := c.size, 0
	if size == 0 {
		size = c.agents
		if size > 1024 {
			size, low = size+8, 8 // as many usable node IDs as agents; the lowest 8 are excluded
		}
	}
	w.pool = protocol.PoolItem{Pool: paperPool, Format: protocol.ItemFormat, Size: size, ExcludeBelow: low, OpenGroups: 1}
	if !c.fresh || size <= 1024 {
		w.pool.OpenGroups = w.pool.Groups()
	} else if c.expect > 0 {
		w.pool.OpenGroups = protocol.GroupsFor(w.pool, c.expect)
	}
	w.leases = make([]protocol.Lease, size)
	for n := range w.leases {
		w.leases[n], _ = protocol.Seed{Key: protocol.Key{Pool: paperPool, NodeID: n}, Floor: paperDay.Add(-time.Hour)}.Apply(nil)
	}
	w.before, w.wrote = slices.Clone(w.leases), make([]int64, size)
	for i := range w.wrote {
		w.wrote[i] = -1 << 40 // long ago
	}
	for g := range w.pool.Groups() {
		w.groups = append(w.groups, w.table.of(fmt.Sprintf("%s#%d", paperPool, g)))
	}
	w.card = w.pool // the functions wrote the cards, with a verdict on the table
	for n := range protocol.Cards {
		w.cards = append(w.cards, w.table.of(fmt.Sprintf("%s#card#%d", paperPool, n)))
	}
	w.note.at = w.table.of(paperPool + "#note")
	w.agents = make([]paperAgent, c.agents)
	w.head, w.tail = make([]int32, paperSlots), make([]int32, paperSlots)
	return w
}

func (w *paper) wall() time.Time { return paperDay.Add(time.Duration(w.now) * time.Millisecond) }

func (w *paper) monotonic() time.Duration { return time.Duration(w.now) * time.Millisecond }

// put writes a lease.
func (w *paper) put(n int, l protocol.Lease) {
	w.before[n], w.wrote[n] = w.leases[n], w.now
	w.leases[n] = l
}

// eventual returns the result of an eventually consistent read of some leases: their
// state up to 20 ms ago, and one time in a hundred up to a second ago.
func (w *paper) eventual(low, high int) []protocol.Lease {
	late := w.dice.Int64N(20)
	if w.dice.IntN(100) == 0 {
		late = w.dice.Int64N(1000)
	}
	w.shown = append(w.shown[:0], w.leases[low:high]...)
	for i := range w.shown {
		if w.now-w.wrote[low+i] < late {
			w.shown[i] = w.before[low+i]
		}
	}
	return w.shown
}

// after gives an agent its next turn after d.
func (w *paper) after(i int32, d time.Duration) {
	at := (w.now + max(d.Milliseconds(), 1)) % paperSlots
	w.agents[i].next = 0
	if w.head[at] == 0 {
		w.head[at] = i + 1
	} else {
		w.agents[w.tail[at]-1].next = i + 1
	}
	w.tail[at] = i + 1
}

// run lets time pass until done returns true, and reports whether it did within a limit.
func (w *paper) run(limit time.Duration, done func() bool) bool {
	for end := w.now + limit.Milliseconds(); w.now < end; {
		if done != nil && done() {
			return true
		}
		w.now++
		at := w.now % paperSlots
		i := w.head[at]
		w.head[at] = 0
		for i != 0 {
			a := &w.agents[i-1]
			this := i - 1
			i = a.next
			a.act(w, this)
		}
		if w.now%60_000 == 0 { // here the poolmetric function runs shortly before the reaper
			w.measure()
		}
		if w.now%paperReaper == 0 && protocol.Behind(w.pool, &w.card) {
			w.card = w.pool
		}
		if w.now%1000 == 0 {
			w.second = append(w.second, w.spent)
		}
	}
	return done != nil && done()
}

func (w *paper) placed() bool { return w.unmet == 0 }

// latency returns the latency of a request that is answered.
func (w *paper) latency() time.Duration {
	ms := 3 + w.dice.IntN(5)
	if w.dice.IntN(100) == 0 {
		ms += w.dice.IntN(60)
	}
	return time.Duration(ms) * time.Millisecond
}

// allowed reports whether the table serves a request that costs the given units of a
// partition.
func (w *paper) allowed(b *bucket, units float64) bool {
	w.spent.requests++
	if w.down {
		w.spent.failed++
		return false
	}
	if !b.take(w.now, units) {
		w.spent.throttled++
		return false
	}
	return true
}

func (w *paper) write(p *paperPartition) bool {
	if !w.allowed(&p.write, 1) {
		return false
	}
	w.spent.writes++
	return true
}

func (w *paper) read(p *paperPartition, units float64) bool {
	if !w.allowed(&p.read, units) {
		return false
	}
	w.spent.reads += units
	return true
}

// start starts an agent at a random time within a duration.
func (w *paper) start(i int32, within time.Duration) {
	w.born++
	w.unmet++
	w.agents[i] = paperAgent{name: w.born, state: paperStarts}
	w.after(i, time.Duration(w.dice.Int64N(int64(within))))
}

// stop lets an agent release its node ID and end, at its next turn.
func (w *paper) stop(i int32) { w.agents[i].state = paperReleases }

// peak returns the highest value of a count in any single second of a span.
func (w *paper) peak(from, to int, of func(paperCount) int) int {
	most := 0
	for s := from; s < min(to, len(w.second)); s++ {
		before := paperCount{}
		if s > 0 {
			before = w.second[s-1]
		}
		most = max(most, of(w.second[s].minus(before)))
	}
	return most
}

// quantile returns a quantile of the times from the start of agents to their node IDs.
func (w *paper) quantile(q float64) time.Duration {
	var waits []int64
	for i := range w.agents {
		waits = append(waits, w.agents[i].took)
	}
	slices.Sort(waits)
	return time.Duration(waits[min(int(q*float64(len(waits))), len(waits)-1)]) * time.Millisecond
}

// check returns an error if two agents hold the same node ID.
func (w *paper) check() error {
	holders := map[int]int{}
	for _, a := range w.agents {
		if a.state != paperHolds {
			continue
		}
		n := a.term.Lease.NodeID
		if holders[n]++; holders[n] > 1 {
			return fmt.Errorf("node ID %d has two holders", n)
		}
	}
	return nil
}
