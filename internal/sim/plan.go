package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Plan is what a seed says of its world.
type Plan struct {
	Seed    uint64
	Bounded bool // clocks keep within ClockError of the true time, and S2 is judged
	Dates   bool // the store tells its time, so agents refuse to start with a clock that is off
	// ClockError is how far wall clocks are off: 2ε of any two is what the guards
	// tolerate, in a bounded world.
	ClockError time.Duration
	Lease      lease.Config
	Tasks      int // that are wanted at any time; a deployment has up to twice as many
	Numbers    int // of the pool at first
	Force      bool
	Narrow     bool          // node IDs become wider meanwhile: see operators.widen
	Hours      time.Duration // how long the faults go on

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

// NewPlan draws a plan with so many hours of tasks, three times as many where
// leases are long.
func NewPlan(seed uint64, taskHours float64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	leases := []lease.Config{
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
	p := Plan{
		Seed: seed, Bounded: seed%2 == 0, Dates: seed%4 == 0 || seed%8 == 1, Force: r.IntN(2) == 0,
		Lease: leases[seed%uint64(len(leases))], Tasks: 4 + r.IntN(20),
	}
	p.Numbers = max(1, p.Tasks*(50+r.IntN(100))/100)
	if p.Lease.TTL >= economy {
		taskHours *= economyFactor
	}
	p.Hours = time.Duration(taskHours * float64(time.Hour) / float64(p.Tasks))
	p.Lease.TTL = max(p.Lease.TTL, map[bool]time.Duration{true: lease.DefaultTTL}[p.Lease.TTL == 0])
	guard, claimGuard := min(2*time.Second, p.Lease.TTL/5), min(time.Second, p.Lease.TTL/10)
	// The timeline's clock may lag by 10 ms, clocks drift, milliseconds cut off.
	p.ClockError = (guard + claimGuard - 13*time.Millisecond - p.Lease.TTL/2000) / 2
	return p
}

func (p Plan) String() string {
	clocks := "wild clocks"
	if p.Bounded {
		clocks = fmt.Sprintf("clocks within %v", p.ClockError)
	}
	return fmt.Sprintf("%d tasks on %d numbers for %v, leases of %v, %s, dates %v, force %v, on expiry %d, on loss %d",
		p.Tasks, p.Numbers, p.Hours.Round(time.Second), p.Lease.TTL, clocks, p.Dates, p.Force, p.Lease.OnExpiry, p.Lease.OnLost)
}

// clockError draws how far a wall clock is off.
func (p Plan) clockError(r *rand.Rand) time.Duration {
	e := p.ClockError
	if !p.Bounded && r.IntN(2) == 0 {
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
