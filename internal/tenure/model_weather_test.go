package tenure

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// modelConfig configures a process of the model.
type modelConfig struct {
	Timings
	stop bool // at the deadline
}

// weather has the kinds of faults that a seed chooses for its world, and how often they
// occur.
type weather struct {
	bounded bool          // clock errors stay within epsilon; otherwise they have no limit
	epsilon time.Duration // the clock error that the guards of all processes tolerate
	restless,
	loss, repeat, nesting, crash, operator float64 // probabilities
	configs []modelConfig
	layout  snowflake.Layout
	options []snowflake.Option
	marks   bool // node IDs may be marked with a width that not all processes have seen
	narrow  bool // the node IDs become wider; see widener
	naked   bool // renewals use the wall clock itself, since S1 must not depend on the timeline's clock
	early   bool // reaper and operator free leases that have not expired
	grows   bool // renewals request any length between a short and a grown one, in any order
	newest  bool // a deliberate mistake: a confirmation is trusted with the newest requested length
}

// newWeather draws the faults of a world. Each seed leaves some faults out, since a fault
// that is always present hides bugs that occur only without it.
func newWeather(r *rand.Rand) weather {
	some := func(most float64) float64 { return most * float64(r.IntN(2)) * r.Float64() }
	w := weather{
		bounded: r.IntN(2) == 0, marks: r.IntN(4) == 0, early: r.IntN(2) == 0, naked: r.IntN(4) == 0,
		restless: []float64{0, 0.001, 0.05, 1}[r.IntN(4)],
		grows:    r.IntN(2) == 0,
		loss:     some(0.5), repeat: some(0.3), nesting: some(0.1), crash: some(0.05), operator: some(0.5),
	}
	leases := []modelConfig{
		{},
		{Timings: Timings{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Guard: 2 * time.Second}},
		{Timings: Timings{TTL: 5 * time.Second}},
		{Timings: Timings{TTL: 30 * time.Second}},
		{Timings: Timings{TTL: 5 * time.Minute}},
		{Timings: Timings{TTL: 15 * time.Second, Reserve: time.Minute}},
		{Timings: Timings{TTL: 15 * time.Second}, stop: true},
		{Timings: Timings{TTL: time.Second, Guard: 200 * time.Millisecond, ClaimGuard: 100 * time.Millisecond}},
	}
	r.Shuffle(len(leases), func(i, j int) { leases[i], leases[j] = leases[j], leases[i] })
	guard, claimGuard, after, longest := time.Hour, time.Hour, time.Hour, time.Duration(0)
	for _, c := range leases[:1+r.IntN(2)] {
		if c.TTL == 0 {
			c.TTL = protocol.DefaultTTL
		}
		c.MaxTTL, c.MaxReserve = c.TTL, 0
		if w.grows {
			ttl := max(c.TTL, 15*time.Second)
			c.MaxTTL, c.MaxReserve = min(ttl*time.Duration(2+r.IntN(7)), 5*time.Minute), max(c.Reserve, ttl*time.Duration(2+r.IntN(15)))
		}
		if errs := c.Complete(); errs != nil {
			panic(errors.Join(errs...))
		}
		w.configs = append(w.configs, c)
		guard, claimGuard, after = min(guard, c.Guard), min(claimGuard, c.ClaimGuard), min(after, c.Guard+c.Reserve-c.TTL)
		longest = max(longest, c.MaxTTL)
		if w.grows { // a renewal may reserve no more than its lease and σ
			after = min(after, c.Guard+c.ClaimGuard)
		}
	}
	// A claimant waits until its own σ after the expiry. After its claim, it waits until
	// the reservation has passed. Each wait alone is enough, except that the first does
	// not help if a lease was freed before it had expired. So in worlds without such
	// releases, claimants skip the second wait.
	margin := guard + claimGuard
	if w.early {
		margin = after
	}
	// The bound is g + σ ≥ 2ε + ρL + slack. ρL is the drift during a lease. The slack is
	// the lag of the timeline's clock (10 ms) and the rounding to milliseconds.
	w.epsilon = (margin - 13*time.Millisecond - longest/2000) / 2
	w.layout = []snowflake.Layout{snowflake.Default(), snowflake.Default(), snowflake.JS53(), snowflake.Sonyflake()}[r.IntN(4)]
	w.options = []snowflake.Option{snowflake.WithLayout(w.layout), snowflake.WithMaxWait(25 * time.Millisecond)}
	if r.IntN(3) == 0 {
		w.options = append(w.options, snowflake.WithStrictWall())
	}
	if r.IntN(3) == 0 {
		w.options = append(w.options, snowflake.WithMaxBackward(time.Duration(r.IntN(3))*10*time.Millisecond))
	}
	if w.narrow = r.IntN(3) == 0; w.narrow {
		w.marks = false
	}
	return w
}

// counts show that things happened in a run.
type counts struct {
	steps, claims, renewals, resumed, lost, stale, landed, released, abandoned, crashes, nested, ids, freed, widened, capped, full, grown, shrunk, hinted int

	hours time.Duration
}

func (c *counts) add(o counts) {
	c.steps += o.steps
	c.claims += o.claims
	c.renewals += o.renewals
	c.resumed += o.resumed
	c.lost += o.lost
	c.stale += o.stale
	c.landed += o.landed
	c.released += o.released
	c.abandoned += o.abandoned
	c.crashes += o.crashes
	c.nested += o.nested
	c.ids += o.ids
	c.freed += o.freed
	c.widened += o.widened
	c.capped += o.capped
	c.hinted += o.hinted
	c.full += o.full
	c.grown += o.grown
	c.shrunk += o.shrunk
	c.hours += o.hours
}

func (c counts) String() string {
	return fmt.Sprintf("%d steps in %.0f process hours: %d claims, %d renewals, %d resumed, %d lost, %d marked, %d landed unheard, %d released, %d abandoned, %d freed, %d crashes, %d pauses inside a step, %d IDs; %d times wider, %d capped renewals, %d with nothing new to ask for, %d longer than TTL, %d shorter than the one before, %d starts by an old card",
		c.steps, c.hours.Hours(), c.claims, c.renewals, c.resumed, c.lost, c.stale, c.landed, c.released, c.abandoned, c.freed, c.crashes, c.nested, c.ids, c.widened, c.capped, c.full, c.grown, c.shrunk, c.hinted)
}
