package snowflake_test

import (
	"errors"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Methods called on nil or zero values return errors; they do not panic.
func TestZeroValues(t *testing.T) {
	for _, g := range []*snowflake.Generator{nil, new(snowflake.Generator)} {
		zero.Methods(t, g, "snowflake.New", "NextN") // NextN gets an empty slice
		zero.Methods(t, g.Block(), "Generator.Block")
		if n, err := g.NextN(t.Context(), make([]ID, 1)); n != 0 || !errors.Is(err, snowflake.ErrClosed) {
			t.Errorf("NextN of %v: got %d, %v; want 0, %v", g, n, err, snowflake.ErrClosed)
		}
	}
	for _, b := range []*snowflake.Block{nil, new(snowflake.Block)} {
		zero.Methods(t, b, "Generator.Block")
	}
	for _, tl := range []*snowflake.Timeline{nil, new(snowflake.Timeline)} {
		zero.Methods(t, tl, "NewTimeline")
	}
	zero.Methods(t, snowflake.NewTimeline((*nilClock)(nil)), "fenced", "Bind", "Widen") // the timeline is not bound, so Widen has nothing to do
}

// With a nil context, there is no limit on how long calls wait.
func TestNilContext(t *testing.T) {
	_, g := bind(t, nil, free())
	for range 1 << 14 { // more IDs than a tick contains, so that some calls wait
		if _, err := g.NextContext(nil); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := g.NextN(nil, make([]ID, 1<<14)); n != 1<<14 || err != nil {
		t.Errorf("NextN: got %d, %v; want %d", n, err, 1<<14)
	}
	for range 1 << 5 {
		if _, err := g.Draw(nil, 1<<12, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// nilClock is a clock that is always a nil pointer.
type nilClock struct{ snowflake.Clock }
