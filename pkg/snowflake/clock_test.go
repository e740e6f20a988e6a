package snowflake_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// noon is the time at which the clocks of these tests begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// frozen is a clock that moves only when its methods are called. Unlike
// snowflaketest.Clock, it does not move when a generator waits. Instead it
// calls asleep, if that is set.
type frozen struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration

	asleep func(d time.Duration)
	sleeps int
	// These functions are called just before and just after a monotonic
	// reading.
	beforeRead, read func()
}

func newFrozen() *frozen { return &frozen{wall: noon, mono: time.Hour} }

func (c *frozen) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *frozen) Monotonic() time.Duration {
	if c.beforeRead != nil {
		c.beforeRead()
	}
	c.mu.Lock()
	mono, read := c.mono, c.read
	c.mu.Unlock()
	if read != nil {
		read()
	}
	return mono
}

// onRead calls f once, after the next monotonic reading.
func (c *frozen) onRead(f func()) {
	c.read = func() { c.read = nil; f() }
}

func (c *frozen) Sleep(d time.Duration) {
	if c.sleeps++; c.sleeps > 100_000 {
		panic("a call waits forever for a stopped clock")
	}
	if c.asleep != nil {
		c.asleep(d)
	}
}

// advance moves both clocks forward by d; step moves only the wall clock.
func (c *frozen) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

func (c *frozen) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// free returns a span of node ID 7 without a beginning or an end.
func free() snowflake.Span {
	return snowflake.Span{NodeID: 7, Nodes: 1024, Until: snowflake.Forever(), Deadline: math.MaxInt64}
}

func bind(t testing.TB, c snowflake.Clock, s snowflake.Span, opts ...snowflake.Option) (*snowflake.Timeline, *snowflake.Generator) {
	t.Helper()
	tl := snowflake.NewTimeline(c)
	if err := tl.Bind(s); err != nil {
		t.Fatal(err)
	}
	return tl, generator(t, tl, opts...)
}

func generator(t testing.TB, n snowflake.Node, opts ...snowflake.Option) *snowflake.Generator {
	t.Helper()
	g, err := snowflake.New(n, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fixed returns a node that has a node ID forever.
func fixed(nodeID int) snowflake.Node {
	tl := snowflake.NewTimeline(nil)
	if err := tl.Bind(snowflake.Span{NodeID: nodeID, Until: snowflake.Forever(), Deadline: math.MaxInt64}); err != nil {
		panic(err)
	}
	return tl
}

func next(t testing.TB, g *snowflake.Generator) ID {
	t.Helper()
	id, err := g.Next()
	if err != nil || id <= 0 {
		t.Fatalf("Next: got %d, %v, want more than 0", id, err)
	}
	return id
}

// useUp makes IDs until the tick has none left.
func useUp(t testing.TB, g *snowflake.Generator) (last ID) {
	t.Helper()
	for range 1 << g.Layout().SequenceBits * 20 {
		id, err := g.TryNext()
		if err == snowflake.ErrBusy {
			return last
		}
		if err != nil {
			t.Fatal(err)
		}
		last = id
	}
	t.Fatal("a tick never ends")
	return 0
}
