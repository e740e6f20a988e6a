package lease

import (
	"context"
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// How a claimant waits for a node ID, and how a release finds those who wait; see
// [tenure.Wait] and [protocol.Note].

// await waits for a moment after a search that found no node ID, for at most left. It
// returns a node ID to claim, or -1, and whether to search groups.
func (a *Agent) await(ctx context.Context, w *tenure.Wait, s *tenure.Search, o tenure.Outlook, left time.Duration) (node int, search bool, err error) {
	if err := a.nap(ctx, w, o, left); err != nil {
		return -1, false, err
	}
	if a.poll(ctx, w) {
		a.sayWaiting(ctx, w)
		if w.Recheck(a.clock.Wall()) {
			s.Again()
			return -1, true, nil
		}
	}
	if w.Off {
		s.Paced = 0
		return -1, true, a.verify(ctx)
	}
	for node, groups := a.next(w); node >= 0 || len(groups) > 0; node, groups = a.next(w) {
		if len(groups) > 0 {
			s.Paced, s.Wanted = len(groups), groups
			return -1, true, nil
		}
		if a.isFree(ctx, w, node) {
			return node, false, nil
		}
	}
	if now := a.clock.Monotonic(); w.Reload(now) {
		before := a.pool.Revision
		if err = a.verify(ctx); err != nil || a.pool.Revision != before {
			s.Again() // the pool has changed, and may have more node IDs
			return -1, true, err
		}
	}
	first, last := a.pool.GroupsOpen()
	s.Paced, s.Wanted = w.Pages(a.clock.Monotonic(), last+1-first), nil
	return -1, s.Paced > 0 || a.stale, nil
}

// next returns a node ID to look at, or groups to read; see [tenure.Wait.Look].
func (a *Agent) next(w *tenure.Wait) (node int, groups []int) {
	return w.Look(a.pool, a.clock.Monotonic(), a.clock.Wall())
}

// noteLimit is how long a poll may take.
const noteLimit = 2 * time.Second

// poll reads the note of those who wait, and reports whether it was answered. Without the
// right to read it, or with one that is corrupt, the claimant waits without.
func (a *Agent) poll(ctx context.Context, w *tenure.Wait) bool {
	notes, ok := a.cfg.Store.(protocol.NoteStore)
	w.Off = w.Off || !ok
	if w.Off {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	var err error
	n, _ := asking(a, func() (n protocol.Note, noAnswer error) {
		if n, err = notes.Note(ctx, a.cfg.Pool); protocol.Reason(err) == "throttled" {
			return n, nil // one partition at its limit is no outage
		}
		return n, err
	})
	a.noteError(w, err)
	if err == nil {
		w.Polled(n, a.clock.Monotonic(), a.clock.Wall())
	}
	return err == nil
}

func (a *Agent) noteError(w *tenure.Wait, err error) {
	var corrupt *CorruptError
	switch {
	case err == nil:
	case permanent(err), errors.As(err, &corrupt):
		w.Off = true
	default:
		w.Missed()
	}
}

// sayWaiting says in the note that somebody waits, if nobody has lately.
func (a *Agent) sayWaiting(ctx context.Context, w *tenure.Wait) {
	say, due := w.Tell(a.cfg.Pool, a.clock.Monotonic(), a.clock.Wall())
	notes, ok := a.cfg.Store.(protocol.NoteStore)
	if !due || !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	n, _, err := notes.WriteNote(ctx, say)
	a.noteError(w, err)
	if err == nil {
		w.Told(n)
	}
}

// isFree reads one node ID, so that fewer claims are refused. The claim decides.
func (a *Agent) isFree(ctx context.Context, w *tenure.Wait, node int) bool {
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	l, err := asking(a, func() (*protocol.Lease, error) { return a.cfg.Store.Get(ctx, a.cfg.Pool, node) })
	if err != nil || l == nil {
		return false
	}
	c := a.claimOf(node, "")
	a.stale = a.stale || l.WidenTry > c.WidenTry
	return w.Looked(l, a.pool, c)
}

// offerLimit is how long a release may take to leave its node ID for those who wait.
const offerLimit = time.Second / 2

// offer leaves a node ID that was released for those who wait for one. It is a courtesy:
// what goes wrong with it is nobody's error.
//
// Invariant: nothing is written unless somebody waits.
func (a *Agent) offer(ctx context.Context, node int) {
	notes, ok := a.cfg.Store.(protocol.NoteStore)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, offerLimit)
	defer cancel()
	n, err := notes.Note(ctx, a.cfg.Pool)
	if at := a.clock.Wall(); err == nil && n.Wants(at) {
		_, _, _ = notes.WriteNote(ctx, protocol.Leave{Pool: a.cfg.Pool, NodeID: node, At: at})
	}
}
