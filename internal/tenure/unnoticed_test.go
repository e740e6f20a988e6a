package tenure

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// A renewal replaces only values that its sender has requested itself, however many of its
// attempts have had no answer.

// copies returns a term and a copy of it, as a snapshot makes them.
func copies(t *testing.T) (original, twin *Term, item protocol.Lease) {
	t.Helper()
	original = newTestTerm(t)
	other := *original
	other.stored = append([]reservation(nil), original.stored...)
	return original, &other, original.Lease.Clone()
}

// apply applies a renewal, and checks whether it is applied or refused.
func apply(t *testing.T, a Attempt, item *protocol.Lease, want bool) {
	t.Helper()
	l, ok := a.Write.Apply(item)
	if ok != want {
		t.Fatalf("%+v on %+v: got applied %v, want %v", a.Write, *item, ok, want)
	}
	if ok {
		*item = l
	}
}

// The copy's first renewal fails. Its second renewal has a number above the original's,
// but is refused even so: the copy loses the lease, and not the original.
func TestFailedRenewalHidesNoCopy(t *testing.T) {
	original, twin, item := copies(t)
	w0 := time.UnixMilli(1_000_000)
	first := mustAttempt(t, original, 105*time.Second, w0.Add(5*time.Second))
	apply(t, first, &item, true)
	original.Confirmed(item, first.M0, first.Length)

	mustAttempt(t, twin, 105*time.Second, w0.Add(5*time.Second+time.Millisecond)) // fails
	second := mustAttempt(t, twin, 106*time.Second, w0.Add(6*time.Second))
	apply(t, second, &item, false)
	if got := twin.Refused(second, &item); got != Cloned {
		t.Errorf("the copy: got verdict %v, want %v", got, Cloned)
	}

	next := mustAttempt(t, original, 110*time.Second, w0.Add(10*time.Second))
	apply(t, next, &item, true)
}

// A renewal may replace any of its sender's renewals that had no answer, and the last
// confirmed one, but none that was stored before that.
func TestRenewalFollowsItsOwn(t *testing.T) {
	w0 := time.UnixMilli(1_000_000)
	for landed := range 4 { // 0: none of the three
		tm := newTestTerm(t)
		item := tm.Lease.Clone()
		var last Attempt
		for i := range 3 {
			at := mustAttempt(t, tm, 101*time.Second, w0.Add(time.Duration(i+1)*time.Second))
			if i+1 == landed {
				apply(t, at, &item, true)
			}
		}
		last = mustAttempt(t, tm, 105*time.Second, w0.Add(5*time.Second))
		apply(t, last, &item, true)
		tm.Confirmed(item, last.M0, last.Length)
		if got := mustAttempt(t, tm, 110*time.Second, w0.Add(10*time.Second)).Write; !got.Confirmed.Equal(item.ReservedUntil) || len(got.Asked) > 0 {
			t.Errorf("after the confirmation: got %v and %v, want %v alone", got.Confirmed, got.Asked, item.ReservedUntil)
		}
	}
}

// A late answer to an attempt that is older than the last confirmed one does not bring the
// values of the older attempt back.
func TestLateAnswerBringsNothingBack(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	item := tm.Lease.Clone()
	first := mustAttempt(t, tm, 101*time.Second, w0.Add(time.Second))
	apply(t, first, &item, true)
	early := item
	second := mustAttempt(t, tm, 102*time.Second, w0.Add(2*time.Second))
	apply(t, second, &item, true)
	tm.Confirmed(item, second.M0, second.Length)
	tm.Confirmed(early, first.M0, first.Length)
	third := mustAttempt(t, tm, 103*time.Second, w0.Add(3*time.Second))
	if got := third.Write; !got.Confirmed.Equal(item.ReservedUntil) || len(got.Asked) > 0 {
		t.Errorf("got %v and %v, want %v alone", got.Confirmed, got.Asked, item.ReservedUntil)
	}
}

// In an outage, a term requests up to mostAsked different values, and then the last of
// them again, so that the condition stays small. The reservation then falls behind, and
// the trust in the lease ends with the reservation, since a forced release could pass the
// node ID on after that. The first answer leads to another renewal, which reserves as
// much as usual.
func TestOutageKeepsTheConditionSmall(t *testing.T) {
	tm := newTestTerm(t)
	base := time.UnixMilli(1_000_000)
	item := tm.Lease.Clone()
	var last Attempt
	for i := range 10 * mostAsked {
		after := time.Duration(i) * time.Minute
		last = mustAttempt(t, tm, 100*time.Second+after, base.Add(after))
		if n := len(last.Write.Asked); n > mostAsked || last.Again != (n == mostAsked) {
			t.Fatalf("attempt %d: got %d values and again %v, want at most %d, and again when they are as many", i, n, last.Again, mostAsked)
		}
		if i == mostAsked+3 {
			apply(t, last, &item, true) // and the answer is lost
		}
	}
	end := 10*mostAsked - 1
	after := time.Duration(end) * time.Minute
	apply(t, last, &item, true)
	tm.Confirmed(item, last.M0, last.Length)
	reserved := item.ReservedUntil.Sub(base) + 100*time.Second // on the monotonic clock
	if most := reserved - tm.guard; tm.Deadline > most {
		t.Errorf("trusted until %v, want at most %v: no more than that is reserved", tm.Deadline, most)
	}
	again := mustAttempt(t, tm, 101*time.Second+after, base.Add(after+time.Second))
	apply(t, again, &item, true)
	if want := base.Add(after + time.Second).Add((tm.ttl + tm.claimGuard)); !item.ReservedUntil.Equal(want) || again.Again || len(again.Write.Asked) > 0 {
		t.Errorf("reserved until %v by %+v, want %v", item.ReservedUntil, again, want)
	}
	if tm.Confirmed(item, again.M0, again.Length); tm.Deadline != 101*time.Second+after+tm.ttl-tm.guard {
		t.Errorf("trusted until %v, want a whole lease again", tm.Deadline)
	}
}

// While a widening try caps the requested values, renewals request the same value again.
func TestCapAddsNothingToTheCondition(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	open := protocol.PoolItem{Pool: "p", Widening: protocol.Widening{Try: 1, From: w0.Add(20 * time.Second), Bits: 11, State: protocol.WidenOpen}}
	for range 5 {
		at, ok := tm.Attempt(107*time.Second, w0.Add(7*time.Second), open, shortOf(tm))
		if !ok || len(at.Write.Asked) > 1 || at.Again {
			t.Fatalf("got %+v, %v, want at most one value", at, ok)
		}
	}
}
