package tenure

import (
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// This file simulates how an agent waits for a node ID, and how it leaves its own node ID
// for waiting agents; see Agent.await and Agent.offer.

// paperNote is the pool's note, in its current state and in the state before its last
// write.
type paperNote struct {
	protocol.Note
	before protocol.Note
	wrote  int64
	at     *paperPartition
}

func (w *paper) writeNote(of protocol.NoteWrite) bool {
	n, ok := of.Apply(w.note.Note)
	if ok {
		w.note.before, w.note.Note, w.note.wrote = w.note.Note, n, w.now
	}
	return ok
}

// eventualNote returns the note as an eventually consistent read shows it.
func (w *paper) eventualNote() protocol.Note {
	late := w.dice.Int64N(20)
	if w.dice.IntN(100) == 0 {
		late = w.dice.Int64N(1000)
	}
	n := w.note.Note
	if w.now-w.note.wrote < late {
		n = w.note.before
	}
	n.Offers = slices.Clone(n.Offers)
	return n
}

func (a *paperAgent) waits(w *paper, i int32) {
	switch a.state {
	case paperOffers: // errors with the note are ignored
		a.state = paperGone
		if w.read(w.note.at, .5) && w.eventualNote().Wants(w.wall()) {
			a.then(w, i, paperLeaves)
		}
	case paperLeaves:
		a.state = paperGone
		if w.write(w.note.at) {
			w.spent.left++
			w.writeNote(protocol.Leave{Pool: paperPool, NodeID: a.term.Lease.NodeID, At: w.wall()})
		}
	case paperJoins:
		if a.poll(w) && a.wait.Awaited(w.wall()) {
			a.foundNone(w, i)
			return
		}
		a.choose(w, i)
	case paperPolls:
		if !a.poll(w) {
			a.consider(w, i)
			return
		}
		if _, due := a.wait.Tell(paperPool, w.monotonic(), w.wall()); due {
			a.wait.said = false // Tell is called again when the note is written
			a.then(w, i, paperSays)
			return
		}
		a.consider(w, i)
	case paperSays:
		if say, due := a.wait.Tell(paperPool, w.monotonic(), w.wall()); due && w.write(w.note.at) {
			w.spent.told++
			w.writeNote(say)
			a.wait.Told(w.note.Note)
		}
		a.consider(w, i)
	case paperLooksAtOne:
		if w.read(w.groups[a.number/protocol.GroupSize], 1) && a.wait.Looked(&w.leases[a.number], a.known, a.claimOf(w)) {
			a.then(w, i, paperClaims)
			return
		}
		a.consider(w, i)
	case paperReloads:
		before := a.known.Revision
		if w.read(w.table.of(paperPool), 1) {
			a.known = w.pool
		}
		if a.known.Revision != before {
			a.searches(w, i, 0)
			return
		}
		a.pages(w, i)
	}
}

func (a *paperAgent) poll(w *paper) bool {
	if !w.read(w.note.at, .5) {
		a.wait.Missed()
		return false
	}
	a.wait.Polled(w.eventualNote(), w.monotonic(), w.wall())
	return true
}

// consider takes the next step that the note suggests.
func (a *paperAgent) consider(w *paper, i int32) {
	if a.wait.Recheck(w.wall()) {
		a.searches(w, i, 0)
		return
	}
	switch node, groups := a.wait.Look(a.known, w.monotonic(), w.wall()); {
	case len(groups) > 0:
		a.searches(w, i, len(groups), groups...)
	case node >= 0:
		a.number = node
		a.then(w, i, paperLooksAtOne)
	case a.wait.Reload(w.monotonic()):
		a.then(w, i, paperReloads)
	default:
		a.pages(w, i)
	}
}

// pages reads groups if any are due.
func (a *paperAgent) pages(w *paper, i int32) {
	first, last := a.known.GroupsOpen()
	if n := a.wait.Pages(w.monotonic(), last+1-first); n > 0 {
		a.searches(w, i, n)
		return
	}
	a.nap(w, i)
}

func (a *paperAgent) searches(w *paper, i int32, paced int, wanted ...int) {
	a.search.Paced, a.search.Wanted = paced, wanted
	a.begin()
	a.then(w, i, paperLooks)
}

// foundNone begins to wait, or goes on waiting, after a search that found no node ID.
func (a *paperAgent) foundNone(w *paper, i int32) {
	if a.hinted { // an agent does not wait because of a hint card: it reads the item first
		a.then(w, i, paperReads)
		return
	}
	first, last := a.known.GroupsOpen()
	a.found.Open = last + 1 - first
	a.wait.Found(a.found, w.monotonic())
	a.wait.On, a.search.Waiting = true, true
	a.nap(w, i)
}

// nap waits until the next poll.
func (a *paperAgent) nap(w *paper, i int32) {
	a.state, a.tries = paperPolls, 0
	w.after(i, max(a.wait.Pause(w.wall()), time.Millisecond))
}

// measure counts the pool, as the poolmetric function does each minute.
func (w *paper) measure() {
	held, cooling := 0, 0
	for _, l := range w.leases[w.pool.ExcludeBelow:] {
		switch l.State(w.wall()) {
		case protocol.Held:
			held++
		case protocol.Expired, protocol.Cooling:
			cooling++
		}
	}
	m := Count(held, cooling, w.wall())
	w.pool.Measured = &m
}
