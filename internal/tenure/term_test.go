package tenure

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// These tests are for a holder's bookkeeping, without clocks or requests.

func newTestTerm(t *testing.T) *Term {
	t.Helper()
	var cfg Timings
	if errs := cfg.Complete(); errs != nil {
		t.Fatal(errs)
	}
	w0 := time.UnixMilli(1_000_000)
	l := protocol.Lease{Pool: "p", Holder: "me", Version: 3, NotBefore: w0, ReservedUntil: w0.Add(16 * time.Second), ExpiresAt: w0.Add(15 * time.Second)}
	return NewTerm(cfg, l, 100*time.Second)
}

func TestDeadlinesCountFromSendingAndNeverFall(t *testing.T) {
	tm := newTestTerm(t)
	if want := 113 * time.Second; tm.Deadline != want || tm.IDDeadline != want {
		t.Fatal(tm.Deadline, tm.IDDeadline)
	}
	if !tm.Held(113*time.Second-1) || tm.Held(113*time.Second) {
		t.Error("held is wrong at the deadline")
	}
	tm.Confirmed(tm.Lease, 105*time.Second, shortOf(tm))
	tm.Confirmed(tm.Lease, 103*time.Second, shortOf(tm)) // the answer of an earlier one comes late
	if want := 118 * time.Second; tm.Deadline != want || tm.IDDeadline != want {
		t.Error(tm.Deadline, tm.IDDeadline)
	}
}

func TestReservedUntilNeverFalls(t *testing.T) {
	tm := newTestTerm(t)
	earlier := tm.Lease
	later := earlier
	later.ReservedUntil = later.ReservedUntil.Add(5 * time.Second)
	tm.Confirmed(later, 105*time.Second, shortOf(tm))
	tm.Confirmed(earlier, 103*time.Second, shortOf(tm)) // the answer of an earlier one comes late
	if got := tm.Lease.ReservedUntil; !got.Equal(later.ReservedUntil) {
		t.Errorf("reserved until %v, was %v", got, later.ReservedUntil)
	}
}

// An attempt requests at least the maximum of all earlier requests, not only of the
// confirmed ones, since a larger request without an answer may have landed.
func TestAttemptsNeverAskForLess(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	far := mustAttempt(t, tm, 101*time.Second, w0.Add(time.Hour)) // no answer
	near := mustAttempt(t, tm, 102*time.Second, w0.Add(2*time.Second))
	if near.Write.ReservedUntil.Before(far.Write.ReservedUntil) || near.Write.ExpiresAt.Before(far.Write.ExpiresAt) {
		t.Errorf("asked for %v after %v", near.Write, far.Write)
	}
	if near.Write.Renewal != far.Write.Renewal+1 || near.Write.Version != 3 || near.Write.Session != "me" {
		t.Errorf("%+v", near.Write)
	}
}

func TestVerdicts(t *testing.T) {
	tm := newTestTerm(t)
	w0 := time.UnixMilli(1_000_000)
	first := mustAttempt(t, tm, 101*time.Second, w0)
	second := mustAttempt(t, tm, 102*time.Second, w0)
	item := func(change func(*protocol.Lease)) *protocol.Lease {
		l := tm.Lease.Clone()
		l.ExpiresAt, l.ReservedUntil = second.Write.ExpiresAt, second.Write.ReservedUntil
		change(&l)
		return &l
	}
	for name, c := range map[string]struct {
		a    Attempt
		cur  *protocol.Lease
		want Verdict
	}{
		"it landed itself":          {second, item(func(l *protocol.Lease) { l.Renewal = 2 }), Landed},
		"a newer one landed":        {first, item(func(l *protocol.Lease) { l.Renewal = 2 }), Landed},
		"it was never sent by us":   {second, item(func(l *protocol.Lease) { l.Renewal = 3 }), Cloned},
		"its number, another end":   {second, item(func(l *protocol.Lease) { l.Renewal, l.ExpiresAt = 2, l.ExpiresAt.Add(time.Millisecond) }), Cloned},
		"its number, another span":  {second, item(func(l *protocol.Lease) { l.Renewal, l.ReservedUntil = 2, l.ReservedUntil.Add(-time.Millisecond) }), Cloned},
		"nothing landed":            {second, item(func(l *protocol.Lease) { l.Renewal, l.WidenTry = 1, 9; l.ReservedUntil = first.Write.ReservedUntil }), Stale},
		"the one before landed":     {second, item(func(l *protocol.Lease) { l.ReservedUntil = first.Write.ReservedUntil; l.Renewal, l.WidenTry = 1, 9 }), Stale},
		"a copy's, before it":       {second, item(func(l *protocol.Lease) { l.Renewal, l.ReservedUntil = 1, l.ReservedUntil.Add(time.Millisecond) }), Cloned},
		"another version":           {second, item(func(l *protocol.Lease) { l.Version = 4; l.Renewal = 2 }), Taken},
		"another holder":            {second, item(func(l *protocol.Lease) { l.Holder = "you" }), Taken},
		"freed":                     {second, item(func(l *protocol.Lease) { l.Holder = "" }), Taken},
		"no item":                   {second, nil, Taken},
		"the same task, though":     {second, item(func(l *protocol.Lease) { l.Holder, l.Task = "you", tm.Lease.Task }), Taken},
		"freed and the same number": {second, item(func(l *protocol.Lease) { l.Holder, l.Renewal = "", 2 }), Taken},
	} {
		if got := tm.Refused(c.a, c.cur); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestReleaseIsNeverBelowNotBefore(t *testing.T) {
	tm := newTestTerm(t)
	if got := tm.Release(time.Time{}); !got.ReservedUntil.Equal(tm.Lease.NotBefore) {
		t.Errorf("nothing stamped: %v", got.ReservedUntil)
	}
	last := tm.Lease.NotBefore.Add(5 * time.Second)
	if got := tm.Release(last); !got.ReservedUntil.Equal(last) || got.Version != 3 || got.Session != "me" {
		t.Errorf("%+v", got)
	}
}

// shortOf returns the length of a claim.
func shortOf(tm *Term) Length { return Length{tm.ttl, tm.ttl + tm.claimGuard} }

// mustAttempt returns an attempt while no widening is open.
func mustAttempt(t *testing.T, tm *Term, m0 time.Duration, w0 time.Time) Attempt {
	t.Helper()
	a, ok := tm.Attempt(m0, w0, protocol.PoolItem{}, shortOf(tm))
	if !ok {
		t.Fatal("nothing to ask for")
	}
	return a
}

// While an open try caps reservations, a renewal is trusted only for as long as its own
// reservation lasts, since only the reservation keeps the next holder from a lease that
// was freed by force.
func TestTrustEndsWithWhatTheCapAllows(t *testing.T) {
	tm := newTestTerm(t) // until 113 s; reserved until 16 s from w0
	w0 := time.UnixMilli(1_000_000)
	open := protocol.PoolItem{Pool: "p", Widening: protocol.Widening{Try: 1, From: w0.Add(20*time.Second + time.Millisecond), Bits: 11, State: protocol.WidenOpen}}
	at, ok := tm.Attempt(107*time.Second, w0.Add(7*time.Second), open, shortOf(tm))
	if !ok || !at.Write.ReservedUntil.Equal(w0.Add(20*time.Second)) || at.Write.WidenTry != 1 {
		t.Fatalf("%+v, %v", at.Write, ok)
	}
	l := tm.Lease
	l.ReservedUntil, l.Renewal = at.Write.ReservedUntil, at.Write.Renewal
	tm.Confirmed(l, at.M0, at.Length)
	// A whole lease and the claim guard would be reserved until 23 s after w0. The cap
	// takes 3 s away, so the renewal is trusted for 10 s instead of 13 s.
	if want := 117 * time.Second; tm.Deadline != want || tm.IDDeadline != want {
		t.Errorf("trusted until %v, IDs until %v, want %v", tm.Deadline, tm.IDDeadline, want)
	}
}

// A renewal that was sent before the holder had seen a try may have been lost, and the
// node ID may have been marked since. Requesting the same reservation again would
// reserve milliseconds that the new width needs. So nothing can be requested until the
// try is settled.
func TestNothingBeyondTheCapIsAskedForAgain(t *testing.T) {
	base := time.UnixMilli(1795219200000).UTC()
	c := Timings{TTL: 15 * time.Second, Guard: 2 * time.Second, ClaimGuard: time.Second, Reserve: 16 * time.Second}
	tm := NewTerm(c, protocol.Lease{Holder: "me", Version: 1, ExpiresAt: base.Add(c.TTL), ReservedUntil: base.Add(c.Reserve)}, 0)
	first, ok := tm.Attempt(5*time.Second, base.Add(5*time.Second), protocol.PoolItem{}, shortOf(tm))
	if !ok || !first.Write.ReservedUntil.Equal(base.Add(21*time.Second)) {
		t.Fatal(first, ok)
	}
	open := protocol.PoolItem{Widening: protocol.Widening{Try: 1, From: base.Add(20 * time.Second), State: protocol.WidenOpen}}
	if a, ok := tm.Attempt(6*time.Second, base.Add(6*time.Second), open, shortOf(tm)); ok {
		t.Errorf("while the try is open: %+v", a.Write)
	}
	open.Widening.State = protocol.WidenVoid
	again, ok := tm.Attempt(7*time.Second, base.Add(7*time.Second), open, shortOf(tm))
	if !ok || again.Write.Renewal != 2 || !again.Write.ReservedUntil.Equal(base.Add(23*time.Second)) {
		t.Error(again, ok)
	}
}

// An attempt of a claim, whose reservation an open try capped, lands without an answer. The
// answer comes to the next attempt, which was sent after the try was voided. Trust ends with
// the reservation of the first one: after a forced release, the next holder relies on the
// node ID from then on.
func TestClaimedByACappedAttempt(t *testing.T) {
	c := Timings{TTL: 5 * time.Minute}
	if errs := c.Complete(); errs != nil {
		t.Fatal(errs)
	}
	w0 := time.UnixMilli(1_000_000)
	pool := protocol.PoolItem{Widening: protocol.Widening{Try: 1, From: w0.Add(time.Minute), State: protocol.WidenOpen}}
	first := c.Claim(protocol.Key{Pool: "p"}, "me", w0, pool)
	pool.Widening.State = protocol.WidenVoid
	second := c.Claim(protocol.Key{Pool: "p"}, "me", w0.Add(5*time.Second), pool)
	l, ok := first.Apply(&protocol.Lease{Pool: "p"})
	if !ok {
		t.Fatal("the first claim was refused")
	}
	tm := c.Claimed(second, protocol.Result{Lease: &l}, 5*time.Second, 0)
	if got, want := tm.Deadline, l.ReservedUntil.Sub(w0)-c.ClaimGuard-c.Guard; got != want {
		t.Errorf("trusted until %v, want %v: the reservation less the guards", got, want)
	}
}

// After several renewals without an answer, any of them may be in the table. A release frees
// what it reserved, but only if its times are the requested ones: those of a copy differ. While
// an open try caps reservations, only the expiries differ.
func TestReleaseOfAnEarlierRenewal(t *testing.T) {
	w0 := time.UnixMilli(1_000_000)
	for name, c := range map[string]struct {
		cap     time.Duration // the end of reservations, after w0; 0 for none
		lands   int           // the attempt that lands
		by      time.Duration // how much later its expiry is than requested
		release bool
	}{
		"the first": {lands: 0, release: true}, "the second": {lands: 1, release: true},
		"a copy's with another expiry": {lands: 0, by: time.Second}, "the last, capped": {cap: 20 * time.Second, lands: 1, release: true},
		"a copy's, capped": {cap: 20 * time.Second, lands: 1, by: time.Second}, "an earlier one, capped": {cap: 20 * time.Second, lands: 0, release: true},
		"a copy's earlier one, capped": {cap: 20 * time.Second, lands: 0, by: time.Second},
	} {
		tm := newTestTerm(t)
		var known protocol.PoolItem
		if c.cap > 0 {
			known.Widening = protocol.Widening{Try: 1, From: w0.Add(c.cap), State: protocol.WidenOpen}
		}
		var sent []protocol.Renew
		for n := range 2 {
			at, ok := tm.Attempt(0, w0.Add(time.Duration(n+5)*time.Second), known, shortOf(tm))
			if !ok {
				t.Fatalf("%s: attempt %d was not made", name, n)
			}
			sent = append(sent, at.Write)
		}
		cur := tm.Lease
		cur.Renewal, cur.ExpiresAt, cur.ReservedUntil = sent[c.lands].Renewal, sent[c.lands].ExpiresAt.Add(c.by), sent[c.lands].ReservedUntil
		w, ok := tm.ReleaseAgain(w0, &cur)
		r, released := w.(protocol.Release)
		if !ok || released != c.release || released && r.Renewal != cur.Renewal {
			t.Errorf("%s: got %#v, %v, want a release: %v", name, w, ok, c.release)
		}
	}
}
