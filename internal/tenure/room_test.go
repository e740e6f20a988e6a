package tenure

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

func poolWith(held, cooling int, at time.Time) protocol.PoolItem {
	return protocol.PoolItem{Size: 100, OpenGroups: 1, Measured: &protocol.Measured{Held: held, Cooling: cooling, At: at, Valid: 10 * time.Minute}}
}

func TestRoom(t *testing.T) {
	now := time.UnixMilli(2_000_000_000)
	grows := func(r *Room, p protocol.PoolItem) bool {
		r.Learn(p)
		return r.Grows(now, time.Second)
	}
	for name, c := range map[string]struct {
		p    protocol.PoolItem
		want bool
	}{
		"never measured": {protocol.PoolItem{Size: 100}, false},
		"room":           {poolWith(45, 0, now), true},
		"within a tenth": {poolWith(46, 0, now), false},
		"cooling counts": {poolWith(40, 11, now), false},
		"old":            {poolWith(1, 0, now.Add(-10*time.Minute)), false},
		"almost old":     {poolWith(1, 0, now.Add(-10*time.Minute+time.Millisecond)), true},
		"a clock ahead":  {poolWith(1, 0, now.Add(time.Second)), true},
		"the future":     {poolWith(1, 0, now.Add(time.Second+time.Millisecond)), false},
		"nonsense":       {poolWith(-1, 0, now), false},
		"expected":       {func() protocol.PoolItem { p := poolWith(40, 0, now); p.Expect = 51; return p }(), false},
		"excluded":       {func() protocol.PoolItem { p := poolWith(40, 0, now); p.ExcludeBelow = 20; return p }(), false},
	} {
		if got := grows(&Room{}, c.p); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	// Growth that has begun goes on up to the limit, and begins again a tenth below it.
	r := &Room{}
	for i, c := range []struct {
		held int
		want bool
	}{{45, true}, {50, true}, {51, false}, {50, false}, {46, false}, {45, true}} {
		if got := grows(r, poolWith(c.held, 0, now)); got != c.want {
			t.Errorf("step %d, %d held: got %v, want %v", i, c.held, got, c.want)
		}
	}
	// An item without a measurement removes the previous measurement.
	if r.Learn(protocol.PoolItem{Size: 100}); r.Grows(now, time.Second) {
		t.Error("it grows by a measurement that is gone")
	}
}

func TestRoomIsReadSeldom(t *testing.T) {
	c := complete(t, Timings{MaxTTL: 15 * time.Minute})
	r := &Room{}
	if r.Due(c, 150*time.Second, 0) || !r.Due(c, 151*time.Second, 0) {
		t.Error("those who are no older than 150 s read it, or those who are do not")
	}
	r.Asked(100 * time.Second)
	if r.Due(c, time.Hour, 399*time.Second) || !r.Due(c, time.Hour, 400*time.Second) {
		t.Error("it is not read once in 5 min")
	}
}

func TestTurn(t *testing.T) {
	now := time.UnixMilli(2_000_000_000)
	at := func(held int, age time.Duration) protocol.PoolItem {
		p := poolWith(held, 0, now.Add(-age))
		p.Measured.Valid = turnValid
		return p
	}
	for name, c := range map[string]struct {
		p      protocol.PoolItem
		chance float64
		want   bool
	}{
		"a young count":        {at(10, 9*time.Minute), 0, false},
		"one in ten":           {at(10, 10*time.Minute), 0.099, true},
		"not the other nine":   {at(10, 10*time.Minute), 0.1, false},
		"nobody held anything": {at(0, 10*time.Minute), 0.99, true},
		"never counted":        {protocol.PoolItem{Size: 100, OpenGroups: 1}, 0.124, true},
		"one in eight":         {protocol.PoolItem{Size: 100, OpenGroups: 1}, 0.125, false},
		"of the function": {func() protocol.PoolItem {
			p := at(10, 25*time.Minute)
			p.Measured.Valid = 30 * time.Minute
			return p
		}(), 0, false},
		"of four groups": {protocol.PoolItem{Size: 1024, OpenGroups: 4}, 0.04, false},
		"out of date":    {at(10, time.Hour), 0.124, true},
	} {
		if got := new(Room).Turn(c.p, now, time.Second, c.chance); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
