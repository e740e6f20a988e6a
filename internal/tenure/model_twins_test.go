package tenure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// twin is a process or its copy, with its requests.
type twin struct {
	*Term
	sent    []Attempt
	answers []twinAnswer
	over    bool
}

type twinAnswer struct {
	of  Attempt
	ok  bool
	cur protocol.Lease
}

// twinWorld makes one term, or a term and its copy, renew with any loss, delay, order and
// repetition of requests and answers. A term without a copy is never mistaken for a copy.
// A term and its copy never both have milliseconds confirmed that were first requested
// after the copy was made.
func twinWorld(t *testing.T, seed uint64, copied bool) (lost bool) {
	r := rand.New(rand.NewPCG(seed, 0x7477696e))
	w0, now := time.UnixMilli(1_000_000), time.Duration(0)
	first := newTestTerm(t)
	item := first.Lease.Clone()
	twins := []*twin{{Term: first}}
	loss, due := r.IntN(8), r.IntN(60)
	var asked time.Time // the latest time that was requested before the copy was made
	for step := range 400 {
		if copied && len(twins) == 1 && step >= due {
			other := *first
			other.stored = slices.Clone(first.stored)
			asked = first.askedUntil
			twins = append(twins, &twin{Term: &other})
		}
		i := r.IntN(len(twins))
		p := twins[i]
		switch n := r.IntN(10); {
		case p.over:
		case n < 4:
			// Two copies never send a request in the same millisecond here: their requests
			// would be equal.
			now += 2 * time.Millisecond * time.Duration(1+r.IntN(1000))
			at := now + time.Duration(i)*time.Millisecond
			p.sent = append(p.sent, mustAttempt(t, p.Term, 100*time.Second+at, w0.Add(at)))
		case n < 7 && len(p.sent) > 0:
			k := len(p.sent) - 1 - r.IntN(min(len(p.sent), 1+r.IntN(6)))
			a := p.sent[k]
			next, ok := a.Write.Apply(&item)
			if ok {
				item = next
			}
			if r.IntN(8) >= loss {
				p.answers = append(p.answers, twinAnswer{a, ok, item.Clone()})
			}
		case len(p.answers) > 0:
			k := r.IntN(len(p.answers))
			a := p.answers[k]
			p.answers = slices.Delete(p.answers, k, k+1)
			switch {
			case a.ok:
				p.Confirmed(a.cur, a.of.M0, a.of.Length)
			default:
				switch v := p.Refused(a.of, &a.cur); {
				case v == Landed:
					p.Confirmed(a.cur, a.of.M0, a.of.Length)
				case v == Cloned && copied:
					p.over, lost = true, true
				default:
					t.Fatalf("seed %d, step %d: %+v refused %+v, got verdict %d", seed, step, a.cur, a.of.Write, v)
				}
			}
		}
		if len(twins) == 2 && twins[0].Lease.ReservedUntil.After(asked) && twins[1].Lease.ReservedUntil.After(asked) {
			t.Fatalf("seed %d, step %d: both go on, up to %v and %v; when the copy was made, up to %v was asked for",
				seed, step, twins[0].Lease.ReservedUntil, twins[1].Lease.ReservedUntil, asked)
		}
		for _, p := range twins {
			if p.Lease.ReservedUntil.After(item.ReservedUntil) && !copied {
				t.Fatalf("seed %d, step %d: confirmed up to %v, and the table has %v", seed, step, p.Lease.ReservedUntil, item.ReservedUntil)
			}
		}
	}
	return lost
}

// TestTwins runs the model of copies; see twinWorld.
func TestTwins(t *testing.T) {
	lost := 0
	for seed := range uint64(2000) {
		twinWorld(t, seed, false)
		if twinWorld(t, seed, true) {
			lost++
		}
	}
	if lost < 1000 {
		t.Errorf("a copy was noticed in %d worlds of 2000, want most", lost)
	}
}
