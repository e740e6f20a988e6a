package snowflake

import (
	"errors"
	"fmt"
	"time"
)

// Option changes what New makes.
type Option func(*Generator)

// WithLayout replaces Default.
func WithLayout(l Layout) Option { return func(g *Generator) { g.layout = l } }

// WithStrictWall reads the wall clock on each call, not once per tick. It costs
// some 30 ns a call and narrows one gap: after a suspend that the monotonic clock
// does not show, up to a millisecond of calls may succeed past the end of the
// span. Their stamps are inside of it all the same, so IDs are unique without it.
func WithStrictWall() Option { return func(g *Generator) { g.strict = true } }

// WithMaxWait bounds the wait of Next: for the next tick, for callers who came
// before, and for a clock that is behind. Defaults to 2 s, which is more than
// a node ID rests after a crash of its holder (1 s at most).
func WithMaxWait(d time.Duration) Option { return func(g *Generator) { g.maxWait = d } }

// WithMaxBackward is how far the wall clock may step back before calls fail with
// a *ClockError; up to that, stamps go on from the monotonic clock and are ahead of
// the wall clock for a while (Stats.Borrow). Defaults to 1 s; with 0 no step back
// of a millisecond or more is borrowed past. On one node the smallest counts.
func WithMaxBackward(d time.Duration) Option { return func(g *Generator) { g.maxBack = d } }

// WithCatchUp is how old a stamp may be while callers ask for more IDs than a
// tick has. A call that overslept its tick may then still use up the ticks that
// went by; without it, what a busy machine oversleeps is lost. Defaults to 16 ms,
// a slice of the scheduler; 0 is off.
func WithCatchUp(d time.Duration) Option { return func(g *Generator) { g.catchUp = d } }

// WithRandomSequence begins the sequence of a tick at a random number below n, not
// at 0. Callers who make less than an ID per tick then can take IDs modulo a
// number of shards. It costs up to n IDs of each such tick; n is at most half of
// the sequence.
func WithRandomSequence(n int) Option { return func(g *Generator) { g.randomSeq = uint64(max(n, 0)) } }

const (
	defaultMaxWait = 2 * time.Second
	defaultMaxBack = time.Second
	defaultCatchUp = 16 * time.Millisecond
)

func (g *Generator) check() error {
	var errs []error
	for _, o := range []struct {
		name string
		d    time.Duration
		max  time.Duration
	}{
		{"WithMaxWait", g.maxWait, 24 * time.Hour},
		{"WithMaxBackward", g.maxBack, 24 * time.Hour},
		{"WithCatchUp", g.catchUp, time.Second},
	} {
		if o.d < 0 || o.d > o.max {
			errs = append(errs, fmt.Errorf("snowflake: %s(%v): use 0 to %v", o.name, o.d, o.max))
		}
	}
	if err := g.layout.Validate(); err != nil {
		errs = append(errs, err)
	} else if half := uint64(1) << g.layout.SequenceBits / 2; g.randomSeq > half {
		errs = append(errs, fmt.Errorf("snowflake: WithRandomSequence(%d): use 0 to %d", g.randomSeq, half))
	}
	return errors.Join(errs...)
}
