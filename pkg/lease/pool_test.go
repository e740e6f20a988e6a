package lease_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// refused checks that an error says all of some texts.
func refused(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error that says %q", err, text)
		}
	}
}

// layoutOf reads the layout of the pool "orders"; "" is none.
func layoutOf(t *testing.T, s protocol.Store) string {
	t.Helper()
	p, err := s.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if p.Layout == nil {
		return ""
	}
	return leasepool.LayoutName(p.Layout.Snowflake())
}

// The first agent that is about to make IDs binds the layout of the pool, before its
// first ID. All others take that one; a different one is refused with both named.
func TestLayoutBelongsToThePool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		idle := fixture.Start(t, fixture.Config(s))
		if got := layoutOf(t, s); got != "" {
			t.Errorf("an agent that makes no IDs bound %q, want none", got)
		}
		first := fixture.Start(t, fixture.Config(s))
		g, err := snowflake.New(first, snowflake.WithLayout(snowflake.JS53()))
		if err != nil {
			t.Fatal(err)
		}
		if got := layoutOf(t, s); got != "js53" {
			t.Errorf("the pool has layout %q, want js53", got)
		}
		second := fixture.Start(t, fixture.Config(s))
		_, err = snowflake.New(second, snowflake.WithLayout(snowflake.Default()))
		refused(t, err, "js53", "default")
		_, err = snowflake.New(second.Timeline(), snowflake.WithLayout(snowflake.Default())) // not around the agent either
		refused(t, err, "js53", "default")
		writes := s.Writes()
		for _, n := range []snowflake.Node{first, second, idle} {
			other, err := snowflake.New(n)
			if err != nil {
				t.Fatal(err)
			}
			if other.Layout().String() != g.Layout().String() {
				t.Errorf("a generator has layout %v, want the pool's, %v", other.Layout(), g.Layout())
			}
		}
		if got := s.Writes() - writes; got != 0 {
			t.Errorf("taking a bound layout cost %d writes, want 0", got)
		}
	})
}

// While the store does not answer no ID is made: which layout the pool has is not
// known.
func TestLayoutNeedsAnAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 8)
		a := fixture.Start(t, fixture.Config(s))
		s.SetOutage(errors.New("away"))
		if g, err := snowflake.New(a); err == nil {
			t.Errorf("got a generator of layout %v during an outage, want an error", g.Layout())
		}
		s.SetOutage(nil)
		if got := layoutOf(t, s); got != "" {
			t.Errorf("the pool has layout %q, want none", got)
		}
		if _, err := snowflake.New(a); err != nil {
			t.Error(err)
		}
	})
}

// A pool without a layout that is larger than the one asked for is refused with what
// to do, and nothing is bound.
func TestLayoutTooSmallForThePool(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 2048)
		a := fixture.Start(t, fixture.Config(s))
		_, err := snowflake.New(a)
		refused(t, err, "2048", "wide16")
		if got := layoutOf(t, s); got != "" {
			t.Errorf("the pool has layout %q, want none", got)
		}
		if _, err := snowflake.New(a, snowflake.WithLayout(snowflake.Wide16())); err != nil {
			t.Error(err)
		}
	})
}

// An operator may correct the layout until a node ID has been claimed. An agent that
// has started, and has not read the layout yet, is in the way.
func TestSetLayout(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("", 0)
		p := leasepool.Open(s, "orders")
		if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 8, Layout: snowflake.JS53()}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.SetLayout(t.Context(), snowflake.Wide16()); err != nil || layoutOf(t, s) != "wide16" {
			t.Fatalf("got layout %q, %v, want wide16", layoutOf(t, s), err)
		}
		fixture.Start(t, fixture.Config(s))
		_, err := p.SetLayout(t.Context(), snowflake.Default())
		refused(t, err, "claimed", "wide16")
		if got := layoutOf(t, s); got != "wide16" {
			t.Errorf("the pool has layout %q, want wide16", got)
		}
	})
}
