package snowflake_test

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// go vet reports copies of a Block, which would repeat the Block's IDs, and copies of
// the other types with state.
func TestVetComplainsAboutCopies(t *testing.T) {
	const file = "testdata/copies/copies.go"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "vet", "./testdata/copies").CombinedOutput()
	if err == nil {
		t.Errorf("go vet: got no error, want some\n%s", out)
	}
	for i, line := range strings.Split(string(src), "\n") {
		complaint := regexp.MustCompile(`copies\.go:` + strconv.Itoa(i+1) + `:.*copies lock`)
		if got, want := complaint.Match(out), strings.HasSuffix(line, "// copied"); got != want {
			t.Errorf("line %d %q: go vet reports an error: %v, want %v\n%s", i+1, line, got, want, out)
		}
	}
}

// The types with state contain the marker that go vet looks for. This test covers
// builds without vet, and mutants.
func TestTypesWithStateAreMarked(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[snowflake.Block](), reflect.TypeFor[snowflake.Generator](), reflect.TypeFor[snowflake.Timeline](),
	} {
		marked := false
		for f := range typ.Fields() {
			marked = marked || f.Name == "_" && reflect.PointerTo(f.Type).Implements(reflect.TypeFor[sync.Locker]())
		}
		if !marked {
			t.Errorf("%v: got no noCopy field, want one", typ)
		}
	}
}

// Nil and zero values do not cause panics. They cause errors that name what to use
// instead.
func TestNewRefusesNil(t *testing.T) {
	var none *snowflake.Timeline
	for name, c := range map[string]struct {
		node snowflake.Node
		opts []snowflake.Option
		want string
	}{
		"nil":           {nil, nil, "no node"},
		"nil pointer":   {none, nil, "no node"},
		"no timeline":   {noTimeline{}, nil, "NewTimeline"},
		"zero Timeline": {&snowflake.Timeline{}, nil, "NewTimeline"},
		"nil option":    {fixed(1), []snowflake.Option{snowflake.WithMaxWait(0), nil}, "option 2 of 2"},
	} {
		g, err := snowflake.New(c.node, c.opts...)
		if g != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want an error with %q", name, g, err, c.want)
		}
	}
	if err := new(snowflake.Timeline).Bind(free()); err == nil || !strings.Contains(err.Error(), "NewTimeline") {
		t.Errorf("Bind of a zero Timeline: got %v, want an error with NewTimeline", err)
	}
}

type noTimeline struct{}

func (noTimeline) Timeline() *snowflake.Timeline { return nil }

// If no pool can have a node ID, Bind returns an error that names this node ID.
func TestBindRefusesNodeIDs(t *testing.T) {
	for _, n := range []int{-1, math.MinInt, math.MaxInt} {
		s := free()
		s.NodeID, s.Nodes = n, 0
		if err := snowflake.NewTimeline(nil).Bind(s); err == nil || !strings.Contains(err.Error(), strconv.Itoa(n)) {
			t.Errorf("Bind of %d: got %v, want an error with the number", n, err)
		}
	}
}

// Times and durations at the limits of their types are handled like all other
// values.
func TestExtremeSpans(t *testing.T) {
	far := time.UnixMilli(math.MaxInt64)
	early := time.UnixMilli(math.MinInt64)
	for name, c := range map[string]struct {
		notBefore, until time.Time
		deadline         time.Duration
		makes            bool
	}{
		"no ends":                    {early, far, math.MaxInt64, true},
		"ends before 1970":           {early, early, math.MaxInt64, false},
		"ends before 1678":           {early, time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64, false},
		"begins at the end of time":  {far, far, math.MaxInt64, false},
		"begins after all layouts":   {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), far, math.MaxInt64, false},
		"deadline long ago":          {early, far, math.MinInt64, false},
		"deadline at the first tick": {early, far, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			for layout, l := range layouts {
				clock := newFrozen()
				s := free()
				s.Nodes, s.NotBefore, s.Until, s.Deadline = 8, c.notBefore, c.until, c.deadline
				tl, g := bind(t, clock, s, snowflake.WithLayout(l), snowflake.WithMaxWait(0))
				b := g.Block()
				for range 3 {
					clock.advance(11 * ms)
					for call, f := range map[string]func() (ID, error){"Next": g.Next, "TryNext": g.TryNext, "Block": b.Next} {
						if id, err := f(); (err == nil) != c.makes || (id != 0) != c.makes {
							t.Errorf("%s, %s: got %d, %v; want an ID: %v", layout, call, id, err, c.makes)
						}
					}
				}
				tl.Extend(early, math.MinInt64)
				if last := tl.Close(); last.IsZero() == c.makes {
					t.Errorf("%s: Close: got %v, want the zero time: %v", layout, last, !c.makes)
				}
			}
		})
	}
}

// An invalid layout makes no IDs, and none of its methods panics.
func TestInvalidLayoutsDoNotPanic(t *testing.T) {
	for _, l := range []snowflake.Layout{
		{},
		{Tick: 1, TimeBits: 255, NodeBits: 255, SequenceBits: 255},
		{Tick: -time.Hour, NodeLast: true, TimeBits: 64},
		{Tick: math.MaxInt64, TimeBits: 63, NodeBits: 64, SequenceBits: 128},
		{Tick: math.MinInt64, Epoch: time.UnixMilli(math.MinInt64)},
	} {
		for _, id := range []ID{0, 1, -1, math.MaxInt64, math.MinInt64} {
			_ = l.Decompose(id)
			_ = snowflake.Eras{{NodeBits: 3}, {From: noon, NodeBits: 5}}.Decompose(l, id)
			_ = snowflake.Eras{{NodeBits: -3}, {From: noon, NodeBits: 500}}.Decompose(l, id)
		}
		_, _, _, _ = l.String(), l.Expires(), l.Nodes(), l.JavaScriptSafe()
		_, _ = l.First(noon), l.Last(noon)
		if _, err := l.Compose(noon, 1, 1); err == nil {
			t.Errorf("%+v: Compose: got no error, want the layout's", l)
		}
		if err := l.Validate(); err == nil {
			t.Errorf("%+v: Validate: got no error", l)
		}
		if _, err := snowflake.New(fixed(0), snowflake.WithLayout(l)); err == nil {
			t.Errorf("%+v: New: got no error", l)
		}
	}
	if l := (snowflake.Layout{TimeBits: 200, NodeBits: 50, SequenceBits: 10}); l.JavaScriptSafe() {
		t.Error("a layout of 260 bits: got safe in JavaScript, want unsafe")
	}
}

// Long past the end of the layout's time field, no IDs are made: the tick does not
// wrap around to a tick that was stamped before, or to ID 0.
func TestLongPastTheEnd(t *testing.T) {
	for _, l := range []snowflake.Layout{
		{Epoch: noon, Tick: ms, TimeBits: 20, NodeBits: 4, SequenceBits: 39}, // 17 minutes
		{Epoch: noon, Tick: ms, TimeBits: 1, NodeBits: 10, SequenceBits: 52},
		{Epoch: noon, Tick: 10 * ms, TimeBits: 8, NodeBits: 4, SequenceBits: 51, NodeLast: true},
		{Epoch: noon, Tick: ms, TimeBits: 41, NodeBits: 10, SequenceBits: 12},
	} {
		forEachCall(t, func(t *testing.T, call func(*snowflake.Generator) func() (ID, error)) {
			for _, past := range []int64{0, 1, 2, 3, 31, 63, 1023, 2047} { // as a multiple of the time field's length
				for _, on := range []time.Duration{0, ms, 50 * ms} {
					away := l.Expires().Sub(noon)
					if away > time.Duration(math.MaxInt64)/(2*2048) && past > 1 {
						continue
					}
					clock := newFrozen()
					s := free()
					s.NodeID, s.Nodes = 1, 16
					tl, g := bind(t, clock, s, snowflake.WithLayout(l), snowflake.WithCatchUp(time.Second))
					clock.advance(away + time.Duration(past)*away + on)
					if id, err := call(g)(); id != 0 || err != snowflake.ErrTimeOverflow {
						t.Errorf("%v, %d lengths and %v past its end: got %d, %v; want %v", l, past, on, id, err, snowflake.ErrTimeOverflow)
					}
					if last := tl.Seal(); !last.IsZero() {
						t.Errorf("%v: Seal: got %v, want the zero time", l, last)
					}
				}
			}
		})
	}
}

// If a span begins past the end of the time field, its first tick does not wrap
// around either.
func TestSpanPastTheEnd(t *testing.T) {
	for name, l := range layouts {
		clock := newFrozen()
		s := free()
		s.Nodes, s.NotBefore = 8, time.UnixMilli(l.Epoch.UnixMilli()+l.Tick.Milliseconds()<<(64-l.SequenceBits))
		_, g := bind(t, clock, s, snowflake.WithLayout(l), snowflake.WithMaxWait(0))
		if id, err := g.Next(); id != 0 || err == nil {
			t.Errorf("%s, from %v: got %d, %v; want an error", name, s.NotBefore, id, err)
		}
	}
}

// The package imports only the standard library, so a program that needs only IDs
// with a fixed node ID does not download an SDK.
func TestImportsTheStandardLibraryOnly(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); len(got) != 1 || !strings.HasSuffix(got[0], "/pkg/snowflake") {
		t.Errorf("got the packages %q, want only this one", got)
	}
}

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
