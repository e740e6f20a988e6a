package tenure

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Wait decides what a claimant reads, and when, while it waits for a node ID of a full
// pool. About once a second it polls the pool's note (half a read unit). It reads the node
// IDs that were released since its last poll, and node IDs that nobody renews, once they
// can be claimed. It also reads a group from time to time, since not everybody who frees a
// node ID leaves it in the note.
//
// All of this is only hints: the claimant claims what it found, and the condition of the
// claim decides.
type Wait struct {
	On   bool       // the claimant waits
	Off  bool       // it has no note to poll: it searches every second
	Dice *rand.Rand // random source of a simulation; nil: the process's

	note    protocol.Note
	polled  bool          // the note was read
	missed  int           // polls without an answer, minus the answered ones after them
	told    time.Duration // when this claimant last announced that it waits
	said    bool
	recheck bool // when this claimant searched, the note announced no waiting claimant

	offers []protocol.Offer // of the last poll, not read yet
	older  []protocol.Offer // of earlier ones
	rests  []Rest
	looks  float64       // read units saved for reading single node IDs
	at     time.Duration // when looks was last updated

	started bool
	read    int           // groups that were read so far
	cost    float64       // of a group of the last search, in read units
	next    time.Duration // when the next group is due
	reload  time.Duration // when the pool's item is due
	sweep   time.Duration // when the pages of older offers may be read again
	sweeps  int
}

// Rest is a node ID that nobody renews, so that it can be claimed from a known time on.
type Rest struct {
	NodeID int
	At     time.Time
}

const (
	// pollEvery is the mean pause between two polls; while there are offers, it is half of
	// that. Each claimant polls at its own random times, so if there are many claimants,
	// the first of them sees a release within milliseconds.
	pollEvery = time.Second
	// longestPoll limits the doubling of pauses while the note's partition throttles: with
	// this pause, 96,000 claimants together send six thousand polls a second.
	longestPoll = 16 * time.Second
	// freshOffer is the age up to which an offer is used if the first poll found it.
	freshOffer = 10 * time.Second
	// Reading one node ID costs one read unit. A claimant saves looksRate units a second for
	// this, up to looksMost, and begins with looksFirst.
	looksRate, looksFirst, looksMost = 2.0, 4.0, 16.0
	// manyOffers is the number of offers in one group at which the group's page is read
	// instead of each node ID, even if the page costs more than one unit.
	manyOffers = 4
	// mostRests is the largest number of rests that are remembered.
	mostRests = 64
	// All groups are read once in firstPass, or in one second per firstPages groups if that
	// is longer; then once in twice that time, and so on up to slowPass. They are read sooner
	// if that costs no more than 0.4 read units a second.
	slowPass, firstPass = 90 * time.Second, 8 * time.Second
	pageSeconds         = 2.5 // for each read unit of a page
	// sweepFirst, doubled, is the pause after the first reading of the pages of skipped
	// offers; each later pause is twice the last one.
	sweepFirst = 2 * time.Second
	// reloadEvery is how often the pool's item is read.
	reloadEvery = 20 * time.Second
)

// Found records a search that found no node ID at now.
func (w *Wait) Found(o Outlook, now time.Duration) {
	w.read += o.Groups
	if o.Groups > 0 {
		w.cost = pageCost(o.Usable / o.Groups)
	}
	if !w.started {
		w.started, w.at, w.looks, w.reload = true, now, looksFirst, now+reloadEvery
		w.next = now + w.between(o.Open)
	}
	for _, r := range o.Rests {
		w.rest(r)
	}
}

// Spare remembers the free node IDs of a page, except the one that is claimed now, in case
// that claim is refused.
func (w *Wait) Spare(free []int, claimed int) {
	for _, n := range free {
		if w.On && n != claimed && len(w.older) < protocol.NotePlaces {
			w.older = append(w.older, protocol.Offer{NodeID: n})
		}
	}
}

// pageCost returns the approximate read units of an eventually consistent read of the given
// number of leases.
func pageCost(leases int) float64 { return max(1, math.Ceil(float64(leases)*300/4096)) / 2 }

// between returns the pause between two pages in a pool with the given number of open
// groups.
func (w *Wait) between(groups int) time.Duration {
	pass := max(firstPass, time.Duration(groups)*time.Second/firstPages)
	pass = min(pass<<min(w.read/groups, 10), slowPass)
	return max(min(time.Duration(w.cost*pageSeconds*float64(time.Second)), pass/time.Duration(groups)), time.Millisecond)
}

func (w *Wait) rest(r Rest) {
	if i := slices.IndexFunc(w.rests, func(o Rest) bool { return o.NodeID == r.NodeID }); i >= 0 {
		w.rests[i] = r
	} else if len(w.rests) < mostRests { // in random order, since other claimants may have read them too
		w.rests = slices.Insert(w.rests, w.random(len(w.rests)+1), r)
	}
}

// Pause returns how long to wait before the next poll, or until a rest can be claimed.
func (w *Wait) Pause(wall time.Time) time.Duration {
	every := pollEvery
	if len(w.offers) > 0 && w.looks >= max(w.cost, 1) {
		return w.within(pollEvery / 10)
	}
	if len(w.offers)+len(w.older) > 0 {
		every /= 2
	}
	d := min(every<<min(w.missed, 10), longestPoll)
	d = d*3/4 + w.within(d/2)
	for _, r := range w.rests {
		if rests := r.At.Sub(wall); rests > 0 && rests < d { // a random time more, since other claimants may wait for it too
			d = min(d, rests+w.within(pollEvery))
		}
	}
	return d
}

// Polled stores the note as it was read at now; wall is the wall clock at that moment.
func (w *Wait) Polled(n protocol.Note, now time.Duration, wall time.Time) {
	before := w.note.Offers
	if !w.polled {
		w.recheck = !n.Awaited(wall)
		before = slices.DeleteFunc(slices.Clone(n.Offers), func(o protocol.Offer) bool {
			age := wall.Sub(time.UnixMilli(o.MS))
			return age.Abs() <= freshOffer
		})
	}
	fresh := slices.DeleteFunc(slices.Clone(n.Offers), func(o protocol.Offer) bool { return slices.Contains(before, o) })
	for i := range fresh {
		j := i + w.random(len(fresh)-i)
		fresh[i], fresh[j] = fresh[j], fresh[i]
	}
	w.older = append(slices.Clone(w.offers), w.older...)
	w.older = w.older[:min(len(w.older), protocol.NotePlaces)]
	w.offers, w.note, w.polled, w.missed = fresh, n, true, max(w.missed-1, 0)
}

// Missed records a poll that had no answer.
func (w *Wait) Missed() { w.missed++ }

// Tell returns the write that announces in the note that a claimant waits, if it is due.
func (w *Wait) Tell(pool string, now time.Duration, wall time.Time) (protocol.Await, bool) {
	// At most twice a minute: otherwise, claimants whose clocks are hours apart would correct
	// each other's time at every poll.
	if !w.note.Due(wall) || w.said && now-w.told < protocol.NoteSpan/2 {
		return protocol.Await{}, false
	}
	w.said, w.told = true, now
	return protocol.Await{Pool: pool, Seen: w.note.Until, Until: wall.Add(protocol.NoteSpan)}, true
}

// Told stores the note from the answer to the write that Tell returned.
func (w *Wait) Told(n protocol.Note) { w.note.Until = n.Until }

// Joins reports whether a first search ends after one full group. If no group is left to
// open, other claimants may already be waiting, and then the pool is full.
func (w *Wait) Joins(pages int, p protocol.PoolItem) bool {
	_, last := p.GroupsOpen()
	return pages == 1 && !w.On && !w.Off && !w.polled && last+1 >= p.Groups()
}

// Awaited reports whether, by the note that was read last, any claimant waits at wall.
func (w *Wait) Awaited(wall time.Time) bool { return w.polled && w.note.Awaited(wall) }

// Recheck returns true once, when the whole pool must be searched again: releases before
// the note announced a waiting claimant left no offers, so the search may have missed their
// node IDs.
func (w *Wait) Recheck(wall time.Time) bool {
	again := w.recheck && w.Awaited(wall)
	w.recheck = w.recheck && !again
	return again
}

// Reload reports whether the pool's item is to be read again at now.
func (w *Wait) Reload(now time.Duration) bool {
	if now < w.reload {
		return false
	}
	w.reload = now + reloadEvery
	return true
}

// Look returns the next node ID to read at now, or -1. In place of a node ID it may return
// groups whose pages are to be read, because many node IDs of these groups were released.
func (w *Wait) Look(p protocol.PoolItem, now time.Duration, wall time.Time) (node int, groups []int) {
	w.looks = min(w.looks+looksRate*max(now-w.at, 0).Seconds(), looksMost)
	w.at = now
	// Any process that may use the pool can write the note, so an offer may be out of
	// range.
	w.offers = slices.DeleteFunc(w.offers, func(o protocol.Offer) bool { return o.NodeID < p.ExcludeBelow || o.NodeID >= p.Limit() })
	in := map[int]int{}
	for _, o := range w.offers {
		in[o.NodeID/protocol.GroupSize]++
	}
	for _, o := range w.offers { // they are in random order
		if g := o.NodeID / protocol.GroupSize; (in[g] >= manyOffers || w.cost <= 1) && w.looks >= w.cost {
			w.looks -= w.cost
			w.offers = slices.DeleteFunc(w.offers, func(o protocol.Offer) bool { return o.NodeID/protocol.GroupSize == g })
			return -1, []int{g}
		}
	}
	// If offers were skipped and no new ones came, the other skipped offers are found on
	// the pages of their groups.
	if len(w.offers) == 0 && len(w.older) > 0 && now >= w.sweep {
		w.sweeps++
		w.sweep = now + min(sweepFirst<<min(w.sweeps, 10), slowPass)
		var all []int
		for _, o := range w.older {
			if g := o.NodeID / protocol.GroupSize; !slices.Contains(all, g) && len(all) < firstPages {
				all = append(all, g)
			}
		}
		w.older = nil
		return -1, all
	}
	if w.looks < 1 {
		return -1, nil
	}
	switch i := slices.IndexFunc(w.rests, func(r Rest) bool { return !r.At.After(wall) }); {
	case len(w.offers) > 0:
		node, w.offers = w.offers[0].NodeID, w.offers[1:]
	case i >= 0:
		node = w.rests[i].NodeID
		w.rests = slices.Delete(w.rests, i, i+1)
	case len(w.older) > 0:
		node, w.older = w.older[0].NodeID, w.older[1:]
	default:
		return -1, nil
	}
	w.looks--
	return node, nil
}

// Looked reports whether c could claim a node ID that was read; l is its lease.
func (w *Wait) Looked(l *protocol.Lease, p protocol.PoolItem, c protocol.Claim) bool {
	o := Outlook{}
	free := l != nil && len(o.Add(protocol.Group{Leases: []protocol.Lease{*l}}, p, c)) > 0
	for _, r := range o.Rests {
		if !r.At.After(c.At) { // after an outage, it is left alone for longer
			r.At = c.At.Add(pollEvery)
		}
		w.rest(r)
	}
	return free
}

// Pages returns how many groups may be read at now, in a pool with the given number of open
// groups.
func (w *Wait) Pages(now time.Duration, groups int) int {
	if now < w.next {
		return 0
	}
	between := w.between(groups)
	n := 1 + int((now-w.next)/between)
	w.next += time.Duration(n) * between
	return min(n, firstPages)
}

// random returns a number below n.
func (w *Wait) random(n int) int {
	if w.Dice != nil {
		return w.Dice.IntN(n)
	}
	return rand.IntN(n)
}

// within returns a random duration below d. An int of 32 bits would hold only 2 s.
func (w *Wait) within(d time.Duration) time.Duration {
	if w.Dice != nil {
		return time.Duration(w.Dice.Int64N(int64(d)))
	}
	return rand.N(d)
}
