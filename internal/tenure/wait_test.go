package tenure

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

func waitOf(seed uint64) *Wait { return &Wait{Dice: rand.New(rand.NewPCG(seed, 4))} }

// Claimants whose clocks are hours apart do not overwrite each other's times at every
// poll. Each claimant writes at most twice a minute, and times that correct clocks wrote
// stay.
func TestClocksOfThoseWhoWait(t *testing.T) {
	note, writes := protocol.Note{Pool: paperPool}, map[time.Duration]int{}
	offsets := []time.Duration{0, 0, 0, 3 * time.Hour, -5 * time.Hour}
	var all []*Wait
	for i := range offsets {
		all = append(all, waitOf(uint64(i)))
	}
	awaited := 0
	const minutes = 30
	for now := time.Duration(0); now < minutes*time.Minute; now += time.Second {
		for i, w := range all {
			wall := paperDay.Add(now + offsets[i])
			w.Polled(note, now, wall)
			if say, due := w.Tell(paperPool, now, wall); due {
				writes[offsets[i]]++
				if n, ok := say.Apply(note); ok {
					note = n
				}
				w.Told(note)
			}
		}
		if note.Awaited(paperDay.Add(now)) {
			awaited++
		}
	}
	t.Logf("writes by offset %v; awaited in %d of %d s", writes, awaited, minutes*60)
	for offset, n := range writes {
		if n > 3*2*minutes {
			t.Errorf("%d writes of those whose clock is off by %v, want at most two a minute each", n, offset)
		}
	}
	if awaited < minutes*60/2 {
		t.Errorf("releases knew in %d of %d s that somebody waits", awaited, minutes*60)
	}
}

// All claimants that wait for one pool together write only once in half a minute.
func TestManyWhoWaitWriteOnce(t *testing.T) {
	note, writes := protocol.Note{Pool: paperPool}, 0
	var all []*Wait
	for i := range uint64(100) {
		all = append(all, waitOf(i))
	}
	for ms := 0; ms < 600_000; ms += 10 { // one after the other, each once a second
		now := time.Duration(ms) * time.Millisecond
		w := all[ms/10%100]
		w.Polled(note, now, paperDay.Add(now))
		if say, due := w.Tell(paperPool, now, paperDay.Add(now)); due {
			writes++
			note, _ = say.Apply(note)
			w.Told(note)
		}
	}
	if writes > 20 {
		t.Errorf("%d writes of 100 claimants in 10 min, want 20", writes)
	}
}

// While the note's partition throttles, polls become rarer until it can serve all
// claimants.
func TestPollsBackOff(t *testing.T) {
	w := waitOf(1)
	mean := func() time.Duration {
		sum := time.Duration(0)
		for range 1000 {
			d := w.Pause(paperDay)
			if d <= 0 {
				t.Fatalf("a pause of %v", d)
			}
			sum += d
		}
		return sum / 1000
	}
	before := mean()
	if before < 950*time.Millisecond || before > 1050*time.Millisecond {
		t.Errorf("polls are %v apart, want 1s", before)
	}
	for range 20 {
		w.Missed()
	}
	if d := mean(); d < longestPoll*9/10 || d > longestPoll*11/10 {
		t.Errorf("after 20 polls without an answer they are %v apart, want %v", d, longestPoll)
	}
	for range 20 {
		w.Polled(protocol.Note{}, 0, paperDay)
	}
	if d := mean(); d > 1050*time.Millisecond {
		t.Errorf("after 20 answers they are %v apart, want 1s", d)
	}
}

// A claimant reads the offered node IDs of this pool that are new since the last poll, or
// that are from the last seconds. It reads each of them once, and only as many as it has
// saved read units for.
func TestLooks(t *testing.T) {
	p := fullPool(4, 4)
	w := waitOf(1)
	w.Found(Outlook{Groups: 4, Open: 4, Usable: 1024}, 0)
	at := func(ms int64) int64 { return paperDay.UnixMilli() + ms }
	looks := func(now time.Duration) (all []int) {
		for node, groups := w.Look(p, now, paperDay.Add(now)); node >= 0 || len(groups) > 0; node, groups = w.Look(p, now, paperDay.Add(now)) {
			all = append(all, node)
		}
		slices.Sort(all)
		return all
	}
	first := []protocol.Offer{{NodeID: 1, MS: at(-1000)}, {NodeID: 300, MS: at(-11_000)}, {NodeID: 5000, MS: at(-1)}, {NodeID: 600, MS: at(3_600_000)}}
	w.Polled(protocol.Note{Offers: first}, 0, paperDay)
	if got := looks(0); !slices.Equal(got, []int{1}) {
		t.Errorf("of the first poll: looked at %v, want 1 alone: the others are old, of no pool, and of a wrong clock", got)
	}
	w.Polled(protocol.Note{Offers: append(first, protocol.Offer{NodeID: 2, MS: at(-7_200_000)})}, time.Second, paperDay.Add(time.Second))
	if got := looks(time.Second); !slices.Equal(got, []int{2}) {
		t.Errorf("of the second poll: looked at %v, want 2, which is new whatever its clock says", got)
	}
	var many []protocol.Offer
	for i := range protocol.NotePlaces {
		many = append(many, protocol.Offer{NodeID: 3 + i%4*256 + i/4, MS: at(2000)})
	}
	w.Polled(protocol.Note{Offers: many}, 2*time.Second, paperDay)
	if got := looks(2 * time.Second); len(got) > 7 {
		t.Errorf("looked at %d of 64 offers, want as many as were saved for", len(got))
	}
	// If a page has several free node IDs, the others are kept in case the claim fails.
	one := waitOf(3)
	one.On = true
	one.Found(Outlook{Groups: 4, Open: 4, Usable: 1024}, 0)
	one.Spare([]int{7, 8}, 8)
	one.sweep = time.Hour
	if node, _ := one.Look(p, 0, paperDay); node != 7 {
		t.Errorf("after a page with 7 and 8: looked at %d, want 7", node)
	}
	// If many node IDs of a group were released, its page is read once enough units are
	// saved.
	w.Polled(protocol.Note{Offers: many}, 20*time.Second, paperDay)
	w.Polled(protocol.Note{}, 21*time.Second, paperDay)
	w.Polled(protocol.Note{Offers: many}, 22*time.Second, paperDay)
	if node, groups := w.Look(p, 22*time.Second, paperDay); node >= 0 || len(groups) != 1 {
		t.Errorf("with 16 offers in each group: look at node %d, groups %v, want a page", node, groups)
	}
}

// A resting node ID is read once it can be claimed, and not before.
func TestRestsAreLookedAt(t *testing.T) {
	p := fullPool(1, 1)
	held := protocol.Lease{NodeID: 1, Holder: "a", TTL: 15 * time.Second, ExpiresAt: paperDay.Add(14 * time.Second), ReservedUntil: paperDay.Add(15 * time.Second)}
	overdue, resting := held, held
	overdue.NodeID, overdue.ExpiresAt = 2, paperDay.Add(5*time.Second)
	resting.NodeID, resting.Holder, resting.ExpiresAt, resting.ReservedUntil = 3, "", time.Time{}, paperDay.Add(time.Minute)
	o := Outlook{Free: -1, Open: 1}
	one := Outlook{}
	c := protocol.Claim{At: paperDay, ClaimGuard: time.Second, ReservedUntil: paperDay.Add(time.Hour)}
	if free := one.Add(protocol.Group{Leases: []protocol.Lease{held, overdue, resting}}, p, c); len(free) > 0 {
		t.Fatalf("free are %v", free)
	}
	o.Merge(one)
	w := waitOf(1)
	w.Found(o, 0)
	patient := c
	patient.Patience = time.Hour
	later := overdue
	later.NodeID, later.ExpiresAt, later.ReservedUntil = 9, paperDay.Add(-time.Minute), paperDay.Add(-time.Minute)
	again := waitOf(2)
	again.Found(o, 0)
	if node := looksFrom(again, &later, p, patient); node >= 0 {
		t.Errorf("looked at node ID %d again at once, which is left alone after an outage", node)
	}
	for after, want := range []int{13: -1, 14: 2, 58: -1, 59: 3, 60: -1} {
		if want == 0 {
			continue
		}
		now := time.Duration(after) * time.Second
		if node, _ := w.Look(p, now, paperDay.Add(now)); node != want {
			t.Errorf("after %v: looked at %d, want %d", now, node, want)
		}
	}
}

// looksFrom reads a lease that c leaves alone, and returns the next node ID to read.
func looksFrom(w *Wait, l *protocol.Lease, p protocol.PoolItem, c protocol.Claim) int {
	if w.Looked(l, p, c) {
		return l.NodeID
	}
	node, _ := w.Look(p, 0, paperDay)
	return node
}

// However long a claimant waits, and however large the pool is, it reads each group again,
// and this costs only a page from time to time.
func TestPagesGoOn(t *testing.T) {
	for groups, most := range map[int]float64{1: 0.5, 4: 0.45, 256: 3} { // pages a second
		p, s, w := fullPool(groups, groups), Search{Dice: rand.New(rand.NewPCG(1, 5)), Waiting: true}, waitOf(2)
		w.Found(Outlook{Groups: min(groups, firstPages), Open: groups, Usable: min(groups, firstPages) * protocol.GroupSize}, 0)
		last, read := make([]time.Duration, groups), 0
		for now := time.Second; now < time.Hour; now += time.Second {
			s.Paced = w.Pages(now, groups)
			if s.Paced == 0 {
				continue
			}
			n := len(pages(&s, p, paperDay.Add(now), time.Time{}))
			w.Found(Outlook{Groups: n, Open: groups, Usable: n * protocol.GroupSize}, now)
			read += n
			for g := range last {
				if s.seen[g] {
					if gap := now - last[g]; gap > slowPass+5*time.Second {
						t.Errorf("group %d of %d was read after %v, want %v at most", g, groups, gap, slowPass)
					}
					last[g] = now
				}
			}
		}
		if rate := float64(read) / 3600; rate > most {
			t.Errorf("%d groups: %.2f pages a second, want at most %.2f", groups, rate, most)
		}
	}
}

// A claimant guesses unless a fresh count shows that the guess would probably be refused.
func TestMostlyTaken(t *testing.T) {
	p := protocol.PoolItem{Size: 1024, ExcludeBelow: 24}
	for _, c := range []struct {
		held, cooling int
		age           time.Duration
		want          bool
	}{{499, 0, 0, false}, {500, 0, 0, true}, {300, 200, time.Minute, true}, {1000, 0, turnValid, false}, {1000, 0, -time.Hour, false}} {
		m := Count(c.held, c.cooling, paperDay.Add(-c.age))
		p.Measured = &m
		if got := MostlyTaken(p, paperDay, time.Second); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
	if p.Measured = nil; MostlyTaken(p, paperDay, time.Second) {
		t.Error("without a count nothing is known")
	}
}
