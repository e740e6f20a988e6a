package protocoltest

import (
	"reflect"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// poolWrites checks the pool's own item.
func poolWrites(t *testing.T, s protocol.Store) {
	if _, err := s.PoolItem(t.Context(), "p"); err == nil {
		t.Fatal("a pool that was never made has an item")
	}
	var cur *protocol.PoolItem
	verdict := protocol.Verdict{Region: "us-east-1", Table: "leases", At: at(3), By: "reaper", Safe: true}
	later := protocol.Verdict{Region: "us-east-1", At: at(4), By: "reaper"}
	for i, w := range []protocol.PoolWrite{
		protocol.OpenGroups{Pool: "p", From: 1, To: 2}, // there is no pool
		protocol.ResizePool{Pool: "p", Revision: 1, To: 20, At: at(1)},
		protocol.CreatePool{Pool: "p", Size: 300, OpenGroups: 1, ExcludeBelow: 8, At: at(0)},
		protocol.CreatePool{Pool: "p", Size: 700, OpenGroups: 2, At: at(1)}, // it exists
		protocol.OpenGroups{Pool: "p", From: 1, To: 2},
		protocol.OpenGroups{Pool: "p", From: 1, To: 3},                  // someone was first
		protocol.ResizePool{Pool: "p", Revision: 1, To: 700, At: at(5)}, // the groups were opened since
		protocol.ResizePool{Pool: "p", Revision: 2, To: 700, At: at(5)},
		protocol.ResizePool{Pool: "p", Revision: 2, To: 100, At: at(6)}, // someone was first
		protocol.ResizePool{Pool: "p", Revision: 3, To: 300, At: at(7)},
		protocol.ResizePool{Pool: "p", Revision: 2, To: 700, At: at(5)}, // a late write: the size is the same again, but not the revision
		protocol.RaiseFloor{Pool: "p", To: at(50)},
		protocol.RaiseFloor{Pool: "p", To: at(49)},
		protocol.RaiseFloor{Pool: "p", To: at(50)},
		protocol.Measure{Pool: "p", Seen: &protocol.Measured{Held: 1, At: at(1)}, Measured: protocol.Measured{Held: 9, At: at(2)}}, // none exists
		protocol.Measure{Pool: "p", Measured: protocol.Measured{Held: 1, Cooling: 2, At: at(1), Valid: time.Minute}},
		protocol.Measure{Pool: "p", Measured: protocol.Measured{Held: 9, At: at(2)}}, // someone was first
		protocol.Measure{Pool: "p", Seen: &protocol.Measured{Held: 1, Cooling: 2, At: at(1), Valid: time.Second}, Measured: protocol.Measured{Held: 9, At: at(2)}},
		protocol.Measure{Pool: "p", Seen: &protocol.Measured{Held: 1, Cooling: 2, At: at(1), Valid: time.Minute}, Measured: protocol.Measured{Held: 3, At: at(2)}},
		protocol.ForgetVerdict{Pool: "p"},                           // there is no verdict, but the revision grows
		protocol.Vouch{Pool: "p", Seen: &verdict, Verdict: verdict}, // there is no verdict
		protocol.Vouch{Pool: "p", Revision: 6, Verdict: verdict},
		protocol.Vouch{Pool: "p", Verdict: protocol.Verdict{Region: "eu-west-1", Table: "leases", At: at(9)}}, // someone was first
		protocol.Vouch{Pool: "p", Seen: &later, Verdict: later},                                               // it was different
		protocol.Vouch{Pool: "p", Seen: &verdict, Verdict: later},
		protocol.ForgetVerdict{Pool: "p"},
		protocol.Vouch{Pool: "p", Seen: &later, Verdict: later},  // a late write must not bring a verdict back
		protocol.Vouch{Pool: "p", Revision: 6, Verdict: verdict}, // nor may one from when there was none before
		protocol.Vouch{Pool: "p", Revision: 7, Verdict: later},
		protocol.SuspendLayout{Pool: "p", Revision: 7},                              // none exists
		protocol.BindLayout{Pool: "p", Layout: protocol.LayoutOf(snowflake.JS53())}, // too small
		protocol.BindLayout{Pool: "p", Layout: protocol.LayoutOf(snowflake.Default())},
		protocol.BindLayout{Pool: "p", Layout: protocol.LayoutOf(snowflake.Wide16())},                 // someone was first
		protocol.ReplaceLayout{Pool: "p", Revision: 8, Layout: protocol.LayoutOf(snowflake.Wide16())}, // the layout was not suspended
		protocol.SuspendLayout{Pool: "p", Revision: 7},
		protocol.SuspendLayout{Pool: "p", Revision: 8},
		protocol.FinalizeLayout{Pool: "p", Revision: 9},                                               // an operator is replacing the layout
		protocol.BindLayout{Pool: "p", Layout: protocol.LayoutOf(snowflake.Default())},                // an operator is replacing the layout
		protocol.ReplaceLayout{Pool: "p", Revision: 8, Layout: protocol.LayoutOf(snowflake.Wide16())}, // a late write
		protocol.ReplaceLayout{Pool: "p", Revision: 9, Layout: protocol.LayoutOf(snowflake.JS53())},   // too small
		protocol.ReplaceLayout{Pool: "p", Revision: 9, Layout: protocol.LayoutOf(snowflake.Sonyflake())},
		protocol.FinalizeLayout{Pool: "p", Revision: 9}, // a late write: an operator has changed the layout since
		protocol.SuspendLayout{Pool: "p", Revision: 9},
		protocol.ExpectHolders{Pool: "p", Revision: 9, Expect: 9, OpenGroups: 1}, // a late write
		protocol.ExpectHolders{Pool: "p", Revision: 10, Expect: 150, OpenGroups: 2},
		protocol.ExpectHolders{Pool: "p", Revision: 10, Expect: 200, OpenGroups: 1}, // someone was first
		protocol.FinalizeLayout{Pool: "p", Revision: 11},
		protocol.FinalizeLayout{Pool: "p", Revision: 12}, // the layout is final
		protocol.SuspendLayout{Pool: "p", Revision: 12},
		protocol.ReplaceLayout{Pool: "p", Revision: 12, Layout: protocol.LayoutOf(snowflake.Default())},
		protocol.ForgetVerdict{Pool: "p", Behind: 5},
	} {
		want, applied := w.Apply(cur)
		res, err := s.WritePool(t.Context(), w)
		if err != nil || res.Applied != applied {
			t.Fatalf("%d: %+v: %+v, %v", i, w, res, err)
		}
		if applied {
			cur = &want
		}
		if (res.Pool == nil) != (cur == nil) || cur != nil && !reflect.DeepEqual(withoutServerTime(*res.Pool), *cur) {
			t.Fatalf("%d: %+v: got %+v, want %+v", i, w, res.Pool, cur)
		}
	}
	got, err := s.PoolItem(t.Context(), "p")
	if err != nil || !reflect.DeepEqual(withoutServerTime(got), *cur) {
		t.Errorf("got %+v, %v, want %+v", got, err, *cur)
	}
}

// cards checks the hint cards, if the store has any.
func cards(t *testing.T, s protocol.Store) {
	cheap, ok := s.(protocol.CardStore)
	if !ok {
		t.Skip("the store has no hint cards: each start reads the pool's item")
	}
	last := protocol.Cards - 1
	if c, err := cheap.Card(t.Context(), "p", last); err != nil || c != nil {
		t.Fatalf("a card that was never written: %+v, %v", c, err)
	}
	of := func(revision int64, verdict *protocol.Verdict) protocol.PoolItem {
		return protocol.PoolItem{Pool: "p", Format: protocol.ItemFormat, Size: 300, OpenGroups: 1, ExcludeBelow: 8, CreatedAt: at(0), Revision: revision, Verdict: verdict}
	}
	layout, before := protocol.LayoutOf(snowflake.Wide16()), protocol.LayoutOf(snowflake.Default())
	full := of(9, &protocol.Verdict{Region: "us-east-1", Table: "leases", At: at(3), By: "reaper", Safe: true})
	full.ResizedAt, full.Floor, full.Layout, full.LayoutBefore, full.LayoutFinal, full.Expect = at(1), at(2), &layout, &before, true, 150
	full.Eras = snowflake.Eras{{From: time.UnixMilli(0).UTC(), NodeBits: 9}, {From: at(5), NodeBits: 10}}
	full.Widening, full.ExistBelow = protocol.Widening{Try: 3, From: at(5), Bits: 10, State: protocol.WidenDone}, 512
	full.Measured = &protocol.Measured{Held: 1, Cooling: 2, At: at(1), Valid: time.Minute}
	counted := func(i protocol.PoolItem, seconds int) protocol.PoolItem {
		i.Measured = &protocol.Measured{Held: seconds, At: at(seconds)}
		return i
	}
	var cur *protocol.PoolItem
	for i, item := range []protocol.PoolItem{
		of(3, nil),
		of(2, &protocol.Verdict{Region: "us-east-1", At: at(9), Safe: true}), // an older copy, whatever its verdict
		of(3, nil), // the same copy
		of(3, &protocol.Verdict{Region: "us-east-1", At: at(5), Safe: true}),
		of(3, &protocol.Verdict{Region: "us-east-1", At: at(4), Safe: true}), // an older verdict
		of(3, nil), // a copy from before the verdict
		counted(of(3, &protocol.Verdict{Region: "us-east-1", At: at(5), Safe: true}), 7),
		counted(of(3, &protocol.Verdict{Region: "us-east-1", At: at(5), Safe: true}), 6), // an older count
		counted(of(3, &protocol.Verdict{Region: "us-east-1", At: at(4), Safe: true}), 8), // an older verdict, whatever its count
		of(3, &protocol.Verdict{Region: "us-east-1", At: at(6)}),
		of(4, nil), // the verdict was forgotten
		of(3, &protocol.Verdict{Region: "us-east-1", At: at(8), Safe: true}), // a late copy does not bring a verdict back
		full,
	} {
		w := protocol.WriteCard{Card: last, Item: item}
		want, applies := w.Apply(cur)
		applied, err := cheap.WriteCard(t.Context(), w)
		if err != nil || applied != applies {
			t.Fatalf("%d: %+v: applied %v, want %v, %v", i, item, applied, applies, err)
		}
		if applies {
			cur = &want
		}
		got, err := cheap.Card(t.Context(), "p", last)
		if err != nil || got == nil || !reflect.DeepEqual(withoutServerTime(*got), *cur) {
			t.Fatalf("%d: got %+v, %v, want %+v", i, got, err, cur)
		}
	}
	if c, err := cheap.Card(t.Context(), "p", 0); err != nil || c != nil {
		t.Errorf("another card: %+v, %v, want none", c, err)
	}
	if _, err := s.PoolItem(t.Context(), "p"); err == nil {
		t.Error("a card counts as the pool's item")
	}
}

// widenings checks the writes of a narrow pool's item.
func widenings(t *testing.T, s protocol.Store) {
	var cur *protocol.PoolItem
	begin := func(try int64, seen protocol.WidenState, from, bits int, numbers ...int) protocol.PoolWrite {
		return protocol.BeginWiden{Pool: "p", Try: try, Seen: seen, From: at(from), Bits: bits, ExistBelow: append(numbers, 512)[0]}
	}
	commit := func(try int64, from, bits int) protocol.PoolWrite {
		return protocol.CommitWiden{Pool: "p", Try: try, From: at(from), Bits: bits}
	}
	void := func(try int64) protocol.PoolWrite { return protocol.VoidWiden{Pool: "p", Try: try} }
	add := func(from, to int, try int64) protocol.PoolWrite {
		return protocol.AddNodeIDs{Pool: "p", From: from, To: to, Try: try}
	}
	for i, c := range []struct {
		w       protocol.PoolWrite
		applied bool
	}{
		{begin(1, protocol.WidenDone, 100, 10), false}, // there is no pool
		{protocol.CreatePool{Pool: "p", Size: 65536, OpenGroups: 1, NodeBits: 9, ExistBelow: 512, At: at(0)}, true},
		{void(0), false}, // the try is done
		{commit(0, 0, 9), false},
		{begin(2, protocol.WidenDone, 100, 10), false},      // not the next try
		{begin(1, protocol.WidenVoid, 100, 10), false},      // the previous try ended otherwise
		{begin(1, protocol.WidenDone, 100, 10, 511), false}, // node IDs were added since
		{begin(1, protocol.WidenDone, 100, 10), true},
		{begin(1, protocol.WidenDone, 101, 10), false},
		{add(512, 1024, 1), false}, // the try is open
		{commit(1, 101, 10), false},
		{commit(1, 100, 11), false},
		{void(1), true},
		{commit(1, 100, 10), false}, // the try is void
		{void(1), false},
		{begin(2, protocol.WidenOpen, 200, 10), false},
		{begin(2, protocol.WidenVoid, 200, 10), true},
		{commit(1, 100, 10), false}, // another try is the latest
		{void(1), false},
		{begin(3, protocol.WidenOpen, 300, 10), true}, // voids the previous try
		{commit(2, 200, 10), false},
		{commit(3, 300, 10), true},
		{commit(3, 300, 10), false},
		{void(3), false},
		{begin(4, protocol.WidenOpen, 400, 10), false}, // the try is done by now
		{add(500, 1024, 3), false},
		{add(512, 1024, 2), false},
		{add(512, 1024, 3), true},
		{begin(4, protocol.WidenDone, 400, 11), false}, // node IDs were added since
		{begin(4, protocol.WidenDone, 400, 11, 1024), true},
	} {
		want, applied := c.w.Apply(cur)
		res, err := s.WritePool(t.Context(), c.w)
		if err != nil || res.Applied != c.applied || applied != c.applied {
			t.Fatalf("%d: %+v on %+v: applied %v by the store, %v by Apply, want %v, %v", i, c.w, cur, res.Applied, applied, c.applied, err)
		}
		if applied {
			cur = &want
		}
		if (res.Pool == nil) != (cur == nil) || cur != nil && !reflect.DeepEqual(withoutServerTime(*res.Pool), *cur) {
			t.Fatalf("%d: %+v: got %+v, want %+v", i, c.w, res.Pool, cur)
		}
	}
	if len(cur.Eras) != 2 || !cur.Eras[1].From.Equal(at(300)) || cur.Eras[1].NodeBits != 10 || cur.ExistBelow != 1024 {
		t.Errorf("%+v", cur)
	}
	// A pool whose width is fixed has no tries.
	for i, w := range []protocol.PoolWrite{
		protocol.CreatePool{Pool: "q", Size: 2, OpenGroups: 1, At: at(0), Expect: 2},
		protocol.BeginWiden{Pool: "q", Try: 1, From: at(100), Bits: 10},
		protocol.AddNodeIDs{Pool: "q", To: 2},
		protocol.VoidWiden{Pool: "q"},
	} {
		if res, err := s.WritePool(t.Context(), w); err != nil || res.Applied != (i == 0) || res.Pool.Widening != (protocol.Widening{}) {
			t.Errorf("%+v: %+v, %v", w, res, err)
		}
	}
}

func withoutServerTime(p protocol.PoolItem) protocol.PoolItem {
	p.ServerTime = time.Time{}
	return p
}
