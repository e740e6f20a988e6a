package lease

import (
	"context"
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// This file implements how a claimant waits for a node ID, and how a release is announced
// to waiting claimants; see [tenure.Wait] and [protocol.Note].

// await waits after a search that found no node ID, for at most the duration left. It
// returns a node ID to claim, or -1, and reports whether the caller should search groups.
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

// next returns a node ID to read, or groups to read; see [tenure.Wait.Look].
func (a *Agent) next(w *tenure.Wait) (node int, groups []int) {
	return w.Look(a.pool, a.clock.Monotonic(), a.clock.Wall())
}

// noteLimit is how long a request for a note, or for one node ID, may take.
const noteLimit = 2 * time.Second

// poll reads the pool's note, and reports whether there was an answer. If the note is
// corrupt, or this process is not permitted to read it, the claimant waits without notes.
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
			return n, nil // a throttled partition is not an outage of the store
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

// sayWaiting records in the note that a claimant is waiting, unless the note already
// shows a recent record.
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

// isFree reads one node ID and reports whether to claim it, so that fewer claims are
// refused. Only the claim itself decides whether the node ID is free.
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

// offerLimit is how long a release may spend on offering its node ID to waiting
// claimants.
const offerLimit = time.Second / 2

// offer records a released node ID in the note, for waiting claimants. It ignores errors,
// since the claimants find the node ID without the note as well.
//
// Invariant: offer writes nothing unless a claimant is waiting.
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
