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
	Dates bool            // answers contain the store's time, so agents refuse to start with a clock that is off
	// ClockError is the largest error of a wall clock, unless clocks are wild. So two clocks
	// differ by at most twice ClockError, which the guards of all releases tolerate.
	ClockError time.Duration
	// Releases are the configurations that can be deployed. The first processes use the
	// first release. In a world without the part "releases", there is only one release.
	Releases []lease.Config
	Tasks    int           // how many tasks are wanted at any time; a deployment runs up to twice as many
	NodeIDs  int           // how many node IDs of the pool can be leased at first
	Exclude  int           // how many node IDs are never leased
	Narrow   bool          // the pool is narrow, and is widened during the faults: see operator.widen
	Hours    time.Duration // how long the faults last
	Grows    bool          // there are enough free node IDs for leases to become longer and reserve further ahead
	Busy     bool          // leases are short, and deployments follow each other closely: see busyTTL

	// Ignore, if not nil, matches broken promises that do not end the world, so that bugs
	// other than a known one can be found.
	Ignore *regexp.Regexp
	// Tamper, if not nil, changes requests on their way into the database. It simulates
	// stores that break their promises.
	Tamper func(body []byte) []byte
}

// economy is the TTL from which on leases are considered long. Worlds with long leases last
// economyFactor times as long as others, since finding bugs depends on the number of
// renewals and not on the hours.
const (
	economy       = time.Minute
	economyFactor = 3
)

// releases are the configurations from which the releases of a world are drawn.
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
} // an odd number, so that each configuration occurs with bounded and with wild clocks

// NewPlan draws a plan whose tasks run for taskHours hours in total, or three times as long
// if leases are long.
func NewPlan(seed uint64, taskHours float64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := Plan{
		Seed: seed, Grows: seed%5 == 2 && seed%3 != 0, Wild: seed%2 == 1, Dates: seed%4 == 0 || seed%8 == 1, Tasks: 4 + r.IntN(20), Narrow: seed%3 == 0,
		Releases: []lease.Config{releases[seed%uint64(len(releases))]},
	}
	p.NodeIDs = max(1, p.Tasks*(50+r.IntN(100))/100)
	if p.Grows {
		p.NodeIDs = 5 * p.Tasks
	}
	p.Parts = drawParts(seed, r)
	for range 2 {
		p.Releases = append(p.Releases, releases[r.IntN(len(releases))])
	}
	if p.Narrow {
		// Leave only a few node IDs, at the end of the first group, so that a few holders
		// are enough to fill a group.
		p.Exclude = 250 - r.IntN(2)*250
	}
	p.settle()
	if p.TTL() >= economy || p.Grows {
		taskHours *= economyFactor
	}
	p.Hours = time.Duration(taskHours * float64(time.Hour) / float64(p.Tasks))
	return p
}

// With returns the plan with the given parts.
func (p Plan) With(parts map[string]bool) Plan {
	p.Parts = parts
	p.settle()
	return p
}

// settle sets the fields that depend on other fields.
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
	// The 13 ms are subtracted because the timeline's clock may lag by 10 ms and times are
	// truncated to milliseconds. The last term is the drift of the clocks.
	p.ClockError = (guard + claimGuard - 13*time.Millisecond - longest/2000) / 2
}

// The durations of leases in a busy world. They lead to the most renewals and changes of
// holders per hour.
const (
	busyTTL     = 5 * time.Second
	busyEvery   = 500 * time.Millisecond
	busyReserve = 20 * time.Second
)

// long adapts the plan for a long run. In such a run, worlds with long leases do not last
// longer than others, but busy worlds last twice as long. A world with a narrow pool lasts a
// third longer, so that a third of all hours are in such worlds, and it has operators, who
// resize the pool while it is widened. If busy is set and the leases do not grow, the world
// becomes busy. A busy world has at least one node ID for each task, and no cluster, because
// waiting claimants and members of a cluster send more requests than holders that renew.
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
		p.NodeIDs = max(p.NodeIDs, p.Tasks)
		delete(p.Parts, "cluster")
	}
	p.Hours = min(p.Hours, 24*time.Hour)
	p.settle()
	return p
}

// unrest returns the longest time between two deployments, and between two steps of a
// deployment.
func (p Plan) unrest() (between, within time.Duration) {
	if p.Busy {
		return 2 * time.Minute, 10 * time.Second
	}
	return 6 * time.Minute, time.Minute
}

// The limits to which leases grow in a world that has enough free node IDs. They are long
// enough for most events to occur while leases are long, and short enough for the node IDs
// of crashed processes to be claimed again before the world ends.
const (
	grownTTL     = 3 * time.Minute
	grownReserve = 20 * time.Minute
)

// Bounded reports whether the errors of the clocks stay within ClockError. If so, S2 is
// judged.
func (p Plan) Bounded() bool { return !p.Wild && !p.has("glitch") }

// TTL returns the longest TTL of the releases.
func (p Plan) TTL() (longest time.Duration) {
	for _, c := range p.Releases {
		longest = max(longest, c.TTL)
	}
	return longest
}

// about draws the length of a trouble, from half of the longest TTL to eight times the
// longest TTL: most bugs need a trouble that is about as long as one or two leases.
func (p Plan) about(intN func(int) int) time.Duration { return p.TTL() / 2 << intN(5) }

// Reserve returns how far ahead, at most, any release reserves.
func (p Plan) Reserve() (furthest time.Duration) {
	for _, c := range p.Releases {
		furthest = max(furthest, c.Reserve, c.TTL+time.Second, c.MaxReserve)
	}
	return furthest
}

// MaxTTL returns the longest TTL to which leases of any release grow.
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
		p.Tasks, p.NodeIDs, p.Narrow, p.Grows, p.Busy, p.Hours.Round(time.Second), clocks, p.Dates, strings.Join(terms, "; "), strings.Join(slices.Sorted(maps.Keys(p.Parts)), ", "))
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
