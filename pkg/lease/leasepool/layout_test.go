package leasepool_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func layout(t *testing.T, s protocol.Store) *protocol.IDLayout {
	t.Helper()
	item, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	return item.Layout
}

func TestSeedLayout(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := leasepool.Open(s, "orders")
		spec := leasepool.Spec{Size: 8}
		if _, err := p.Seed(t.Context(), spec); err != nil || layout(t, s) != nil {
			t.Fatalf("got layout %v, %v, want none", layout(t, s), err)
		}
		spec.Layout = snowflake.Sonyflake() // a seed that finds an existing pool binds the layout
		for range 2 {
			if c, err := p.Seed(t.Context(), spec); err != nil || *layout(t, s) != protocol.LayoutOf(spec.Layout) || *c.Pool.Layout != *layout(t, s) {
				t.Fatalf("got layout %v, %v, want sonyflake", layout(t, s), err)
			}
		}
		spec.Layout = snowflake.JS53()
		_, err := p.Seed(t.Context(), spec)
		errorHas(t, err, "sonyflake", "js53")
		_, err = p.Resize(t.Context(), leasepool.Spec{Size: 9, Layout: snowflake.JS53()})
		errorHas(t, err, "sonyflake", "js53")
		_, err = leasepool.Open(s, "users").Seed(t.Context(), leasepool.Spec{Size: 65, Layout: snowflake.JS53()})
		errorHas(t, err, "65", "js53", "at most 64")
	})
}

// A resize to a size that does not fit the layout is refused, even if the layout is bound
// while the resize is in progress. A resize that is refused at once changes nothing.
func TestResizeBeyondTheLayout(t *testing.T) {
	s := leasetest.NewMemory("orders", 64)
	p := leasepool.Open(s, "orders")
	js53 := snowflake.JS53()
	bound := false
	late := through{Store: s, before: func(w protocol.Write) error {
		if _, seeds := w.(protocol.Seed); seeds && !bound {
			bound = true
			if _, err := siblings.BindLayout(t.Context(), s, item(t, s), &js53); err != nil {
				t.Error(err)
			}
		}
		return nil
	}}
	for _, size := range []int{65, 70} {
		_, err := leasepool.Open(late, "orders").Resize(t.Context(), leasepool.Spec{Size: size})
		errorHas(t, err, fmt.Sprint("size ", size), "js53", "at most 64")
		if l, err := s.Get(t.Context(), "orders", 69); err != nil || l != nil {
			t.Errorf("got node 69, %+v, %v, want none created", l, err)
		}
		if got := item(t, s).Size; got != 64 {
			t.Fatalf("the pool has size %d, want 64", got)
		}
	}
	before := item(t, s)
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 70, Floor: time.Now().Add(time.Hour)}); err == nil || item(t, s).Revision != before.Revision {
		t.Errorf("got %v, and revision %d after %d, want an error and no change", err, item(t, s).Revision, before.Revision)
	}
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 32}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resize(t.Context(), leasepool.Spec{Size: 64}); err != nil {
		t.Fatal(err)
	}
}

func item(t *testing.T, s protocol.Store) protocol.PoolItem {
	t.Helper()
	p, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// claimOn claims a node ID as an agent does.
func claimOn(t *testing.T, s protocol.Store, node int) {
	t.Helper()
	now := time.Now().Add(time.Second)
	w := protocol.Claim{Key: protocol.Key{Pool: "orders", NodeID: node}, Session: "agent", At: now, TTL: time.Minute, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute)}
	if res, err := s.Write(t.Context(), w); err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}

// If an agent claims a node ID while an operator corrects the layout, either the layout
// stays, or the agent, which reads the layout after its claim, finds no layout and makes
// no IDs.
func TestSetLayoutBesideAClaim(t *testing.T) {
	for _, moment := range []string{"read after 0 writes", "write after 0 writes", "read after 1 writes", "write after 1 writes", "never"} {
		t.Run(moment, func(t *testing.T) {
			s := leasetest.NewMemory("", 0)
			if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.JS53()}); err != nil {
				t.Fatal(err)
			}
			var found *protocol.IDLayout // the layout that the agent reads after its claim
			claim := func() {
				claimOn(t, s, 3)
				if p, err := siblings.BindLayout(t.Context(), s, item(t, s), nil); err == nil {
					found = p.Layout
				}
			}
			_, err := leasepool.Open(&moments{Store: s, at: moment, do: claim}, "orders").SetLayout(t.Context(), snowflake.Wide16())
			if moment == "never" {
				if claim(); err != nil || *found != protocol.LayoutOf(snowflake.Wide16()) {
					t.Errorf("nobody had claimed: got %v and layout %v, want wide16", err, found)
				}
				return
			}
			// A second run finishes what the first has begun.
			_, _ = leasepool.Open(s, "orders").SetLayout(t.Context(), snowflake.Default())
			p := item(t, s)
			if p.Layout == nil || p.LayoutBefore != nil {
				t.Fatalf("run again: got layout %v and %v before it, want one layout", p.Layout, p.LayoutBefore)
			}
			if found != nil && *found != *p.Layout {
				t.Errorf("an agent makes IDs of %v, and the pool has %v: %v", *found, *p.Layout, err)
			}
			if *p.Layout == protocol.LayoutOf(snowflake.Default()) {
				t.Errorf("the layout was changed again although a node ID was claimed")
			}
		})
	}
}

// Once a node ID was claimed, set-layout does not advise another run, which would fail as
// well. If it was cut off, it can be run again with the layout that stays.
func TestSetLayoutAfterAClaim(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := leasepool.Open(s, "orders")
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.JS53()}); err != nil {
			t.Fatal(err)
		}
		claimOn(t, s, 3)
		if _, err := p.SetLayout(t.Context(), snowflake.Wide16()); err == nil || strings.Contains(err.Error(), "run it again") || !strings.Contains(err.Error(), "its layout stays") {
			t.Errorf("got %v, want an error that the layout stays", err)
		}
		if _, err := s.WritePool(t.Context(), protocol.SuspendLayout{Pool: "orders", Revision: item(t, s).Revision}); err != nil {
			t.Fatal(err)
		}
		if got, err := p.SetLayout(t.Context(), snowflake.JS53()); err != nil || got.Layout == nil || *got.Layout != protocol.LayoutOf(snowflake.JS53()) {
			t.Errorf("got layout %v, %v, want js53", got.Layout, err)
		}
	})
}

// The reaper marks a layout as final once it has seen a claim, and never before. From
// then on, no operator can correct the layout, even if the lease ends.
func TestFinalLayout(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := leasepool.Open(s, "orders")
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.JS53()}); err != nil {
			t.Fatal(err)
		}
		reap := func(want bool, why string) {
			t.Helper()
			if _, err := p.Reap(t.Context()); err != nil || item(t, s).LayoutFinal != want {
				t.Fatalf("%s: the layout is final: %t, %v, want %t", why, item(t, s).LayoutFinal, err, want)
			}
		}
		reap(false, "before any claim")
		if _, err := p.SetLayout(t.Context(), snowflake.Wide16()); err != nil {
			t.Fatal(err)
		}
		claimOn(t, s, 3)
		if _, err := p.Due(t.Context()); err != nil || item(t, s).LayoutFinal {
			t.Errorf("Due has marked the layout, or failed: %v", err)
		}
		revision := item(t, s).Revision
		reap(true, "after a claim")
		reap(true, "once more")
		if got := item(t, s); got.Revision != revision+1 || *protocol.FinalLayout(got) != protocol.LayoutOf(snowflake.Wide16()) {
			t.Errorf("got revision %d and layout %+v, want %d and wide16", got.Revision, protocol.FinalLayout(got), revision+1)
		}
		_, err := p.SetLayout(t.Context(), snowflake.JS53())
		errorHas(t, err, "wide16", "use another pool")
	})
}

// moments is a store that calls a function before one read of a group or one write of the
// pool's item.
type moments struct {
	protocol.Store
	at string
	do func()

	mu     sync.Mutex
	writes int
}

func (s *moments) now(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.do != nil && s.at == fmt.Sprintf("%s after %d writes", what, s.writes) {
		s.do()
		s.do = nil
	}
	if what == "write" {
		s.writes++
	}
}

func (s *moments) Group(ctx context.Context, pool string, group int) (protocol.Group, error) {
	s.now("read")
	return s.Store.Group(ctx, pool, group)
}

func (s *moments) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	s.now("write")
	return s.Store.WritePool(ctx, w)
}

func TestLayoutNames(t *testing.T) {
	for _, name := range append(leasepool.LayoutNames(), "40/3/10") {
		l, err := leasepool.ParseLayout(name)
		if err != nil || leasepool.LayoutName(l) != name {
			t.Errorf("got %q, %v, want %q", leasepool.LayoutName(l), err, name)
		}
	}
	for _, text := range []string{"", "40/3", "40/3/x", "60/10/10", "wide17"} {
		if l, err := leasepool.ParseLayout(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, l)
		}
	}
}

// Each exported function of package snowflake that takes nothing and returns a layout has a
// name for pools and the CLI: its own name in lower case.
func TestEveryLayoutHasAName(t *testing.T) {
	files, err := filepath.Glob("../../snowflake/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Params.NumFields() > 0 || fn.Type.Results.NumFields() != 1 {
				continue
			}
			if result, ok := fn.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "Layout" {
				want = append(want, strings.ToLower(fn.Name.Name))
			}
		}
	}
	if got := leasepool.LayoutNames(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("got the names %q, want those of the functions in package snowflake, %q", got, want)
	}
	for _, name := range leasepool.LayoutNames() {
		if l, err := leasepool.ParseLayout(name); err != nil || leasepool.LayoutName(l) != name {
			t.Errorf("%s: got a layout with the name %s, %v, want the same name", name, leasepool.LayoutName(l), err)
		}
	}
}

// A resize between two steps of a set-layout is refused if the pool would no longer fit the
// layout to which the set-layout may have to return.
func TestResizeWhileTheLayoutIsSuspended(t *testing.T) {
	s := leasetest.NewMemory("", 0)
	p := leasepool.Open(s, "orders")
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.Default()}); err != nil {
		t.Fatal(err)
	}
	slow := &poolWrites{Store: s, before: func(w protocol.PoolWrite) bool {
		switch w.(type) {
		case protocol.SuspendLayout:
			fixture.Hold(t, s, 3, time.Now(), 15*time.Second) // by an agent, which then waits for the layout
		case protocol.ReplaceLayout:
			if c, err := p.Resize(t.Context(), leasepool.Spec{Size: 2048}); err == nil {
				t.Errorf("got a pool of %d, want the resize refused", c.Pool.Size)
			}
			return true
		}
		return false
	}}
	if _, err := leasepool.Open(slow, "orders").SetLayout(t.Context(), snowflake.Discord()); err == nil {
		t.Error("got no error from set-layout, want one about the claim")
	}
	if l := layout(t, s); l == nil || *l != protocol.LayoutOf(snowflake.Default()) {
		t.Errorf("got the layout %v, want the previous one", l)
	}
}
