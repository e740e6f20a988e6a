package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Plan is the description of a seed's world.
type Plan struct {
	Seed  uint64
	Parts map[string]bool // see parts
	Wild  bool            // clocks are hours off
	Dates bool            // the store tells its time, so agents refuse to start with a clock that is off
	// ClockError is how far wall clocks are off where they are not wild: 2ε of any two
	// is the error that the guards of all releases tolerate.
	ClockError time.Duration
	// Releases are what deploys change between: the first one is that of the first
	// processes, and the only one in a world without "releases".
	Releases []lease.Config
	Tasks    int           // that are wanted at any time; a deployment has up to twice as many
	Numbers  int           // of the pool at first, those that are excluded not counted
	Exclude  int           // node IDs that are never leased
	Narrow   bool          // node IDs become wider meanwhile: see operators.widen
	Hours    time.Duration // how long the faults go on
	Grows    bool          // there is room, so leases become longer and reserve further ahead
	Busy     bool          // leases are short, and deploys follow each other: see busy

	// Ignore, if not nil, is which broken promises do not end the world: to look for
	// another bug than the one that is known already.
	Ignore *regexp.Regexp
	// Tamper, if not nil, changes requests on their way into the database: for
	// stores that do not keep their word.
	Tamper func(body []byte) []byte
}

// economy is a lease of a minute or more. Its worlds last longer: what can go wrong
// comes with the renewals, not with the hours.
const (
	economy       = time.Minute
	economyFactor = 3
)

// releases are the terms on which processes hold their leases.
var releases = []lease.Config{
	{},
	{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Guard: 2 * time.Second},
	{TTL: 5 * time.Second},
	{TTL: 30 * time.Second},
	{TTL: 5 * time.Minute},
	{Reserve: time.Minute},
	{OnExpiry: lease.Stop},
	{OnLost: lease.Reacquire},
	{OnLost: lease.Reacquire, OnExpiry: lease.Stop},
	{TTL: time.Minute},
	{TTL: 2 * time.Minute, Reserve: 5 * time.Minute},
	{TTL: 90 * time.Second, OnLost: lease.Reacquire},
	{TTL: 10 * time.Minute},
} // an odd number of them, so that each meets bounded clocks and wild ones

// NewPlan draws a plan with so many hours of tasks, three times as many where
// leases are long.
func NewPlan(seed uint64, taskHours float64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Seed: seed, Grows: seed%5 == 2 && seed%3 != 0, Wild: seed%2 == 1, Dates: seed%4 == 0 || seed%8 == 1, Tasks: 4 + r.IntN(20), Narrow: seed%3 == 0,
		Releases: []lease.Config{releases[seed%uint64(len(releases))]},
	}
	p.Numbers = max(1, p.Tasks*(50+r.IntN(100))/100)
	if p.Grows {
		p.Numbers = 5 * p.Tasks
	}
	p.Parts = drawParts(seed, r)
	for range 2 {
		p.Releases = append(p.Releases, releases[r.IntN(len(releases))])
	}
	if p.Narrow {
		// A few node IDs at the end of the first group, for a few holders to be enough
		// for a pool whose groups are full.
		p.Exclude = 250 - r.IntN(2)*250
	}
	p.settle()
	if p.TTL() >= economy || p.Grows {
		taskHours *= economyFactor
	}
	p.Hours = time.Duration(taskHours * float64(time.Hour) / float64(p.Tasks))
	return p
}

// With returns the plan with other parts.
func (p Plan) With(parts map[string]bool) Plan {
	p.Parts = parts
	p.settle()
	return p
}

// settle draws the consequences of the parts.
func (p *Plan) settle() {
	p.Releases = slices.Clone(p.Releases)
	if !p.has("releases") {
		p.Releases = p.Releases[:1]
	}
	guard, claimGuard, longest := time.Hour, time.Hour, time.Duration(0)
	for i := range p.Releases {
		c := &p.Releases[i]
		if p.Busy {
			c.TTL, c.RenewEvery, c.Guard, c.Reserve = busyTTL, busyEvery, 0, min(c.Reserve, busyReserve)
		}
		if c.TTL == 0 {
			c.TTL = lease.DefaultTTL
		}
		c.MaxTTL = c.TTL
		if p.Grows {
			c.MaxTTL, c.MaxReserve = max(c.TTL, grownTTL), max(c.Reserve, c.TTL+time.Second, grownReserve)
		}
		guard, claimGuard = min(guard, 2*time.Second, c.TTL/5), min(claimGuard, time.Second, c.TTL/10)
		longest = max(longest, c.MaxTTL)
	}
	// The timeline's clock may lag by 10 ms, clocks drift, milliseconds cut off.
	p.ClockError = (guard + claimGuard - 13*time.Millisecond - longest/2000) / 2
}

// The terms in a world that is busy: most renewals and changes of hands for each hour.
const (
	busyTTL     = 5 * time.Second
	busyEvery   = 500 * time.Millisecond
	busyReserve = 20 * time.Second
)

// long makes the plan one of the long run: no world has more hours because its leases are
// long, and one that is busy has twice as many. Narrow pools have a third more than others, for a third of
// all hours to be theirs, and operators who resize them while they widen. A busy world, which is none
// whose leases grow, has a node ID for each task, and no cluster: who waits for one, and a
// cluster's members, ask more often than holders renew.
func (p Plan) long(busy bool) Plan {
	p.Parts = maps.Clone(p.Parts)
	if p.TTL() >= economy || p.Grows {
		p.Hours /= economyFactor
	}
	if p.Narrow {
		p.Parts["operators"] = true
		p.Hours += p.Hours / 3
	}
	if busy && !p.Grows {
		p.Busy = true
		p.Hours *= 2
		p.Numbers = max(p.Numbers, p.Tasks)
		delete(p.Parts, "cluster")
	}
	p.Hours = min(p.Hours, 24*time.Hour)
	p.settle()
	return p
}

// unrest is the time between two deploys, at most, and within one.
func (p Plan) unrest() (between, within time.Duration) {
	if p.Busy {
		return 2 * time.Minute, 10 * time.Second
	}
	return 6 * time.Minute, time.Minute
}

// How far leases grow in a world that has room: far enough that most events
// come while they are long, and not so far that crashed processes' node IDs rest until the
// world ends.
const (
	grownTTL     = 3 * time.Minute
	grownReserve = 20 * time.Minute
)

// Bounded reports whether the clocks keep within ClockError, so that S2 is judged.
func (p Plan) Bounded() bool { return !p.Wild && !p.has("glitch") }

// TTL is the longest lease of the releases.
func (p Plan) TTL() (longest time.Duration) {
	for _, c := range p.Releases {
		longest = max(longest, c.TTL)
	}
	return longest
}

// about draws a length of a trouble, from half a lease to eight: most bugs wait for
// one that is about as long as a lease, or two.
func (p Plan) about(intN func(int) int) time.Duration { return p.TTL() / 2 << intN(5) }

// Reserve is how far ahead any release reserves.
func (p Plan) Reserve() (furthest time.Duration) {
	for _, c := range p.Releases {
		furthest = max(furthest, c.Reserve, c.TTL+time.Second, c.MaxReserve)
	}
	return furthest
}

// MaxTTL is the longest lease that any release grows to.
func (p Plan) MaxTTL() (longest time.Duration) {
	for _, c := range p.Releases {
		longest = max(longest, c.MaxTTL)
	}
	return longest
}

func (p Plan) String() string {
	clocks := "wild clocks"
	if !p.Wild {
		clocks = fmt.Sprintf("clocks within %v", p.ClockError)
	}
	var terms []string
	for _, c := range p.Releases {
		terms = append(terms, fmt.Sprintf("TTL %v reserve %v on expiry %d on loss %d", c.TTL, c.Reserve, c.OnExpiry, c.OnLost))
	}
	return fmt.Sprintf("%d tasks on %d node IDs (narrow %v, leases grow %v, busy %v) for %v, %s, dates %v, leases of %s; with %s",
		p.Tasks, p.Numbers, p.Narrow, p.Grows, p.Busy, p.Hours.Round(time.Second), clocks, p.Dates, strings.Join(terms, "; "), strings.Join(slices.Sorted(maps.Keys(p.Parts)), ", "))
}

// clockError draws how far a wall clock is off.
func (p Plan) clockError(r *rand.Rand) time.Duration {
	e := p.ClockError
	if p.Wild && r.IntN(2) == 0 {
		e = time.Millisecond << r.IntN(24) // up to hours
	}
	switch r.IntN(4) {
	case 0:
		return e
	case 1:
		return -e
	}
	return time.Duration(r.Int64N(int64(2*e)+1)) - e
}
