package lease

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A holder's bookkeeping, without clocks or requests.

func newTestTerm(t *testing.T) *term {
	t.Helper()
	cfg, err := Config{Store: struct{ Store }{}, Pool: "p"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	w0 := time.UnixMilli(1_000_000)
	l := Lease{Pool: "p", Holder: "me", Version: 3, NotBefore: w0, ReservedUntil: w0.Add(16 * time.Second), ExpiresAt: w0.Add(15 * time.Second)}
	return newTerm(cfg, l, 100*time.Second)
}

func TestDeadlinesCountFromSendingAndNeverFall(t *testing.T) {
	tm := newTestTerm(t)
	if want := 113 * time.Second; tm.deadline != want || tm.idDeadline != want {
		t.Fatal(tm.deadline, tm.idDeadline)
	}
	if !tm.held(113*time.Second-1) || tm.held(113*time.Second) {
		t.Error("held is wrong at the deadline")
	}
	tm.confirmed(tm.lease, 105*time.Second)
	tm.confirmed(tm.lease, 103*time.Second) // the answer of an earlier one comes late
	if want := 118 * time.Second; tm.deadline != want || tm.idDeadline != want {
		t.Error(tm.deadline, tm.idDeadline)
	}
}

func TestReservedUntilNeverFalls(t *testing.T) {
	tm := newTestTerm(t)
	earlier := tm.lease
	later := earlier
	later.ReservedUntil = later.ReservedUntil.Add(5 * time.Second)
	tm.confirmed(later, 105*time.Second)
	tm.confirmed(earlier, 103*time.Second) // the answer of an earlier one comes late
	if got := tm.lease.ReservedUntil; !got.Equal(later.ReservedUntil) {
		t.Errorf("reserved until %v, was %v", got, later.ReservedUntil)
	}
}

// The maximum is over all that was asked for, not over what was confirmed: an
// unconfirmed larger one may have landed.
func TestAttemptsNeverAskForLess(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	far := mustAttempt(t, tm, 101*time.Second, w0.Add(time.Hour)) // no answer
	near := mustAttempt(t, tm, 102*time.Second, w0.Add(2*time.Second))
	if near.write.ReservedUntil.Before(far.write.ReservedUntil) || near.write.ExpiresAt.Before(far.write.ExpiresAt) {
		t.Errorf("asked for %v after %v", near.write, far.write)
	}
	if near.write.Renewal != far.write.Renewal+1 || near.write.Version != 3 || near.write.Session != "me" {
		t.Errorf("%+v", near.write)
	}
}

func TestVerdicts(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	first := mustAttempt(t, tm, 101*time.Second, w0)
	second := mustAttempt(t, tm, 102*time.Second, w0)
	item := func(change func(*Lease)) *Lease {
		l := tm.lease.Clone()
		l.ExpiresAt, l.ReservedUntil = second.write.ExpiresAt, second.write.ReservedUntil
		change(&l)
		return &l
	}
	for name, c := range map[string]struct {
		a    attempt
		cur  *Lease
		want verdict
	}{
		"it landed itself":          {second, item(func(l *Lease) { l.Renewal = 2 }), landed},
		"a newer one landed":        {first, item(func(l *Lease) { l.Renewal = 2 }), landed},
		"it was never sent by us":   {second, item(func(l *Lease) { l.Renewal = 3 }), cloned},
		"its number, another end":   {second, item(func(l *Lease) { l.Renewal, l.ExpiresAt = 2, l.ExpiresAt.Add(time.Millisecond) }), cloned},
		"its number, another span":  {second, item(func(l *Lease) { l.Renewal, l.ReservedUntil = 2, l.ReservedUntil.Add(-time.Millisecond) }), cloned},
		"nothing landed":            {second, item(func(l *Lease) { l.Renewal, l.WidenTry = 1, 9; l.ReservedUntil = first.write.ReservedUntil }), relayouted},
		"the one before landed":     {second, item(func(l *Lease) { l.ReservedUntil = first.write.ReservedUntil; l.Renewal, l.WidenTry = 1, 9 }), relayouted},
		"a copy's, before it":       {second, item(func(l *Lease) { l.Renewal, l.ReservedUntil = 1, l.ReservedUntil.Add(time.Millisecond) }), cloned},
		"another version":           {second, item(func(l *Lease) { l.Version = 4; l.Renewal = 2 }), taken},
		"another holder":            {second, item(func(l *Lease) { l.Holder = "you" }), taken},
		"freed":                     {second, item(func(l *Lease) { l.Holder = "" }), taken},
		"no item":                   {second, nil, taken},
		"the same task, though":     {second, item(func(l *Lease) { l.Holder, l.Task = "you", tm.lease.Task }), taken},
		"freed and the same number": {second, item(func(l *Lease) { l.Holder, l.Renewal = "", 2 }), taken},
	} {
		if got := tm.refused(c.a, c.cur); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestReleaseIsNeverBelowNotBefore(t *testing.T) {
	tm := newTestTerm(t)
	if got := tm.release(time.Time{}); !got.ReservedUntil.Equal(tm.lease.NotBefore) {
		t.Errorf("nothing stamped: %v", got.ReservedUntil)
	}
	last := tm.lease.NotBefore.Add(5 * time.Second)
	if got := tm.release(last); !got.ReservedUntil.Equal(last) || got.Version != 3 || got.Session != "me" {
		t.Errorf("%+v", got)
	}
}

// mustAttempt is an attempt where no widening is open.
func mustAttempt(t *testing.T, tm *term, m0 time.Duration, w0 time.Time) attempt {
	t.Helper()
	a, ok := tm.attempt(m0, w0, protocol.PoolItem{})
	if !ok {
		t.Fatal("nothing to ask for")
	}
	return a
}

// While an open try caps what may be reserved, a renewal is trusted only for as
// long as what it reserved would last: a lease freed by force is kept from the
// next holder by that alone.
func TestTrustEndsWithWhatTheCapAllows(t *testing.T) {
	tm := newTestTerm(t) // until 113 s; reserved until 16 s from w0
	w0 := time.UnixMilli(1_000_000)
	open := protocol.PoolItem{Pool: "p", Widening: protocol.Widening{Try: 1, From: w0.Add(20*time.Second + time.Millisecond), Bits: 11, State: protocol.WidenOpen}}
	at, ok := tm.attempt(107*time.Second, w0.Add(7*time.Second), open)
	if !ok || !at.write.ReservedUntil.Equal(w0.Add(20*time.Second)) || at.write.WidenTry != 1 {
		t.Fatalf("%+v, %v", at.write, ok)
	}
	l := tm.lease
	l.ReservedUntil, l.Renewal = at.write.ReservedUntil, at.write.Renewal
	tm.confirmed(l, at.m0)
	// A whole lease and the claim guard would be reserved to 23 s from w0: 3 s are
	// missing of the 13 s that a renewal is good for.
	if want := 117 * time.Second; tm.deadline != want || tm.idDeadline != want {
		t.Errorf("trusted until %v, IDs until %v, want %v", tm.deadline, tm.idDeadline, want)
	}
}

// What was asked for before a try was known of may have been lost, and the number
// marked since: asking for it again would reserve what the new width needs. So
// there is nothing to ask for until the try is settled.
func TestNothingBeyondTheCapIsAskedForAgain(t *testing.T) {
	base := time.UnixMilli(1795219200000).UTC()
	c := Config{TTL: 15 * time.Second, Guard: 2 * time.Second, ClaimGuard: time.Second, Reserve: 16 * time.Second}
	tm := newTerm(c, Lease{Holder: "me", Version: 1, ExpiresAt: base.Add(c.TTL), ReservedUntil: base.Add(c.Reserve)}, 0)
	first, ok := tm.attempt(5*time.Second, base.Add(5*time.Second), protocol.PoolItem{})
	if !ok || !first.write.ReservedUntil.Equal(base.Add(21*time.Second)) {
		t.Fatal(first, ok)
	}
	open := protocol.PoolItem{Widening: protocol.Widening{Try: 1, From: base.Add(20 * time.Second), State: protocol.WidenOpen}}
	if a, ok := tm.attempt(6*time.Second, base.Add(6*time.Second), open); ok {
		t.Errorf("while the try is open: %+v", a.write)
	}
	open.Widening.State = protocol.WidenVoid
	again, ok := tm.attempt(7*time.Second, base.Add(7*time.Second), open)
	if !ok || again.write.Renewal != 2 || !again.write.ReservedUntil.Equal(base.Add(23*time.Second)) {
		t.Error(again, ok)
	}
}

// What is noticed late of a term that is over ends no other one: the next number
// would be held in the table, and by nobody here.
func TestLateNewsOfATermThatIsOver(t *testing.T) {
	var clock stopped
	var heard []EventKind
	first, second := newTestTerm(t), newTestTerm(t)
	a := &Agent{cfg: Config{OnExpiry: Stop, OnLost: Reacquire}, clock: &clock, timeline: snowflake.NewTimeline(&clock), term: second}
	a.events.hook = outlet{fn: func(e Event) { heard = append(heard, e.Kind) }}
	clock.at = second.deadline
	a.bark(first)
	a.lose(first, ErrLost)
	if a.suspended || a.over != nil {
		t.Errorf("got suspended %v, over %v; want neither", a.suspended, a.over)
	}
	a.bark(second)
	a.bark(second)
	a.events.drain()
	if !a.suspended || a.over == nil || len(heard) != 2 || heard[0] != EventSuspended || heard[1] != EventLost {
		t.Errorf("got suspended %v, over %v, events %v; want it suspended and then lost", a.suspended, a.over, heard)
	}
}
