package tenure

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Wait decides what a claimant reads, and when, while it waits for a node ID of a full
// pool. About once a second it polls the pool's note (half a read unit). It reads
// node IDs that were released since its last poll, and at those that nobody renews, once
// their time has come. Besides it reads a group from time to time, since not everybody
// who frees a node ID leaves it in the note.
//
// All of it is hints: what is found is claimed, and the condition of the claim decides.
type Wait struct {
	On   bool       // the claimant waits
	Off  bool       // it has no note to poll: it searches every second
	Dice *rand.Rand // of a simulation; nil = the process's

	note    protocol.Note
	polled  bool          // the note was read
	missed  int           // polls without an answer, less those with one since
	told    time.Duration // when this claimant last said that it waits
	said    bool
	recheck bool // nobody was known to wait when it searched

	offers []protocol.Offer // of the last poll, not looked at yet
	older  []protocol.Offer // of earlier ones
	rests  []Rest
	looks  float64       // read units saved for looks
	at     time.Duration // when they were counted

	started bool
	read    int           // groups that were read so far
	cost    float64       // of the last ones, each in read units
	next    time.Duration // when the next is due
	reload  time.Duration // when the pool's item is
	sweep   time.Duration // when the pages of older offers may be read again
	sweeps  int
}

// Rest is a node ID that can be claimed from a time on, since nobody renews it.
type Rest struct {
	NodeID int
	At     time.Time
}

const (
	// pollEvery is the mean pause between two polls, twice what it is while there are
	// offers. All who wait poll at their own random times, so the first of many hears of a
	// release within milliseconds.
	pollEvery = time.Second
	// longestPoll limits the doubling of pauses while the note's partition throttles: with
	// it, six thousand polls a second are those of 96,000 claimants.
	longestPoll = 16 * time.Second
	// freshOffer is the age up to which an offer counts that was there at the first poll.
	freshOffer = 10 * time.Second
	// A look at one node ID is one read unit. A claimant saves two units a second for them,
	// and begins with some.
	looksRate, looksFirst, looksMost = 2.0, 4.0, 16.0
	// manyOffers is from how many in one group on its page is read in place of each, where
	// it costs more than one.
	manyOffers = 4
	// mostRests bounds what is remembered.
	mostRests = 64
	// All groups are read once in firstPass, or in a second for each firstPages of them, then
	// in twice the time, and so on up to slowPass; sooner if that costs no more than 0.4 read
	// units a second.
	slowPass, firstPass = 90 * time.Second, 8 * time.Second
	pageSeconds         = 2.5 // for each read unit of a page
	// sweepFirst is the pause, doubled, after the pages were read in which offers went by.
	sweepFirst = 2 * time.Second
	// reloadEvery is how often the pool's item is read.
	reloadEvery = 20 * time.Second
)

// Found takes a search into account that found no node ID at now.
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

// Spare remembers the free node IDs of a page of which one is claimed now, in case that the
// claim is refused.
func (w *Wait) Spare(free []int, claimed int) {
	for _, n := range free {
		if w.On && n != claimed && len(w.older) < protocol.NotePlaces {
			w.older = append(w.older, protocol.Offer{NodeID: n})
		}
	}
}

// pageCost is the approximate cost of reading so many leases eventually consistent.
func pageCost(leases int) float64 { return max(1, math.Ceil(float64(leases)*300/4096)) / 2 }

// between is the pause between two pages of a pool of so many open groups.
func (w *Wait) between(groups int) time.Duration {
	pass := max(firstPass, time.Duration(groups)*time.Second/firstPages)
	pass = min(pass<<min(w.read/groups, 10), slowPass)
	return max(min(time.Duration(w.cost*pageSeconds*float64(time.Second)), pass/time.Duration(groups)), time.Millisecond)
}

func (w *Wait) rest(r Rest) {
	if i := slices.IndexFunc(w.rests, func(o Rest) bool { return o.NodeID == r.NodeID }); i >= 0 {
		w.rests[i] = r
	} else if len(w.rests) < mostRests { // in random order: others know of them too
		w.rests = slices.Insert(w.rests, w.random(len(w.rests)+1), r)
	}
}

// Pause returns how long to wait before the next poll, or until a node ID has rested.
func (w *Wait) Pause(wall time.Time) time.Duration {
	every := pollEvery
	if len(w.offers) > 0 && w.looks >= max(w.cost, 1) {
		return time.Duration(w.random(int(pollEvery / 10)))
	}
	if len(w.offers)+len(w.older) > 0 {
		every /= 2
	}
	d := min(every<<min(w.missed, 10), longestPoll)
	d = d*3/4 + time.Duration(w.random(int(d/2)))
	for _, r := range w.rests {
		if rests := r.At.Sub(wall); rests > 0 && rests < d { // others know of it too
			d = min(d, rests+time.Duration(w.random(int(pollEvery))))
		}
	}
	return d
}

// Polled takes over the note as it was read at now, which is wall by the wall clock.
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

// Missed notes a poll that had no answer.
func (w *Wait) Missed() { w.missed++ }

// Tell returns the write that says that somebody waits, if it is due.
func (w *Wait) Tell(pool string, now time.Duration, wall time.Time) (protocol.Await, bool) {
	// At most twice a minute: two clocks that are hours apart would correct each other at
	// every poll.
	if !w.note.Due(wall) || w.said && now-w.told < protocol.NoteSpan/2 {
		return protocol.Await{}, false
	}
	w.said, w.told = true, now
	return protocol.Await{Pool: pool, Seen: w.note.Until, Until: wall.Add(protocol.NoteSpan)}, true
}

// Told takes over the note that answered such a write.
func (w *Wait) Told(n protocol.Note) { w.note.Until = n.Until }

// Joins reports whether a search that found its first group full ends there, because
// others wait already: a pool of which no group is left to open is full then.
func (w *Wait) Joins(pages int, p protocol.PoolItem) bool {
	_, last := p.GroupsOpen()
	return pages == 1 && !w.On && !w.Off && !w.polled && last+1 >= p.Groups()
}

// Awaited reports whether somebody waits at wall by the note as it was read.
func (w *Wait) Awaited(wall time.Time) bool { return w.polled && w.note.Awaited(wall) }

// Recheck reports, once, that the whole pool is to be searched again: now that the
// releases know that somebody waits. Those between the last search and that time left
// nothing.
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

// Look returns the next node ID to look at, at now, or -1; or groups in which so many were
// released that their pages are to be read.
func (w *Wait) Look(p protocol.PoolItem, now time.Duration, wall time.Time) (node int, groups []int) {
	w.looks = min(w.looks+looksRate*max(now-w.at, 0).Seconds(), looksMost)
	w.at = now
	// Anyone of this pool may write the note.
	w.offers = slices.DeleteFunc(w.offers, func(o protocol.Offer) bool { return o.NodeID < p.ExcludeBelow || o.NodeID >= p.Limit() })
	in := map[int]int{}
	for _, o := range w.offers {
		in[o.NodeID/protocol.GroupSize]++
	}
	for _, o := range w.offers { // which are in random order
		if g := o.NodeID / protocol.GroupSize; (in[g] >= manyOffers || w.cost <= 1) && w.looks >= w.cost {
			w.looks -= w.cost
			w.offers = slices.DeleteFunc(w.offers, func(o protocol.Offer) bool { return o.NodeID/protocol.GroupSize == g })
			return -1, []int{g}
		}
	}
	// If offers were skipped, and no new ones come, the remaining ones are on some page.
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

// Looked reports whether c could claim a node ID that was looked at.
func (w *Wait) Looked(l *protocol.Lease, p protocol.PoolItem, c protocol.Claim) bool {
	o := Outlook{}
	free := l != nil && len(o.Add(protocol.Group{Leases: []protocol.Lease{*l}}, p, c)) > 0
	for _, r := range o.Rests {
		if !r.At.After(c.At) { // after an outage it is left alone for longer
			r.At = c.At.Add(pollEvery)
		}
		w.rest(r)
	}
	return free
}

// Pages returns how many groups may be read at now, of a pool of so many open ones.
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
