package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/pkg/lease"
)

// registrar keeps the table up to date with a process's offers. After each change, each
// renewal and each failure, it compares the wanted entries with the entries that it has
// written for the present lease. Usually they are the same.
type registrar struct {
	dir   *Directory
	agent *lease.Agent

	mu     sync.Mutex
	wanted map[place]*Address
	asked  int             // number of changes requested so far
	done   int             // number of those changes that are in the table, except at the places in kept
	kept   map[place]error // wanted places that a broken entry keeps
	err    error           // of the last turn
	turned chan struct{}   // closed at the end of the next turn
	wake   chan struct{}

	// Only the loop uses these fields: the last turn's error, the session, and the
	// session's entries in the table.
	told     error
	session  session
	revision int64
	written  map[place]*Address // a nil address means that the entry in the table is unknown
	broken   map[place]bool     // unwanted entries in written that are corrupt and seem to be newer
	listed   map[place]bool     // the list in the table; nil means that it is unknown
	unlisted bool               // the list is broken and seems to be newer
}

type session struct {
	nodeID  int
	holder  string
	version int64
}

// change changes the wanted entries, and waits until the table has them.
//
// Invariant (liveness): only calls that offer the place of a broken entry wait for it. These
// places are in offered.
func (r *registrar) change(ctx context.Context, offered map[place]*Address, fn func(map[place]*Address) error) error {
	r.mu.Lock()
	if err := fn(r.wanted); err != nil {
		r.mu.Unlock()
		return err
	}
	r.asked++
	mine := r.asked
	select {
	case r.wake <- struct{}{}:
	default: // the loop has been woken already
	}
	r.mu.Unlock()
	for {
		r.mu.Lock()
		done, err, turned := r.done >= mine, r.err, r.turned
		for p := range r.kept {
			done = done && offered[p] == nil
		}
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-turned:
		case <-r.agent.Done():
			return r.agent.Err()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("discovery: not in the table yet, still trying: %w", context.Cause(ctx)), err)
		}
	}
}

// loop runs until the agent ends. From then on, the agent's entries are no longer valid.
func (r *registrar) loop() {
	defer r.dir.forget(r.agent)
	for failures := 0; r.agent.Err() == nil; {
		renewed := r.agent.Renewed() // before the lease is read, so that no renewal is missed
		var retry <-chan time.Time
		if err := r.turn(); err != nil {
			retry = time.After(rand.N(min(time.Second, 50*time.Millisecond<<min(failures, 10))) + 1)
			failures++
		} else {
			failures = 0
		}
		select {
		case <-r.wake:
		case <-renewed:
		case <-retry:
		case <-r.agent.Done():
		}
	}
}

// turn does all pending work, and wakes the callers that wait for it.
func (r *registrar) turn() error {
	r.mu.Lock()
	asked, wanted := r.asked, maps.Clone(r.wanted)
	r.mu.Unlock()
	kept, failed := r.reconcile(wanted)
	err := failed
	for _, p := range slices.Sorted(maps.Keys(kept)) {
		err = errors.Join(err, kept[p])
	}
	if err != nil && r.told == nil && !errors.Is(err, lease.ErrSuspended) && !errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrClosed) {
		// The lock is not held: a blocking Logger must not keep callers from giving up.
		r.dir.cfg.Logger.Warn("discovery: not registered, trying again", "pool", r.dir.cfg.Pool, "node_id", r.session.nodeID, "error", err)
	}
	r.told = err
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed == nil {
		r.done, r.kept = asked, kept
	}
	r.err = err
	close(r.turned)
	r.turned = make(chan struct{})
	return err
}

// reconcile makes the table match the wanted entries. kept has those places that a broken
// entry keeps.
func (r *registrar) reconcile(wanted map[place]*Address) (kept map[place]error, err error) {
	kept = map[place]error{}
	l, err := r.agent.Lease()
	if err != nil {
		return nil, err
	}
	if now := (session{l.NodeID, l.Holder, l.Version}); now != r.session {
		if len(wanted) == 0 { // nothing to register, nothing to withdraw
			return kept, nil
		}
		if err := r.begin(now); err != nil {
			return nil, err
		}
	}
	// A list never has more than maxOffers places, because readers take a longer one for
	// corrupt.
	if len(r.places(wanted)) > maxOffers {
		if err := r.withdraw(wanted); err != nil {
			return nil, err
		}
	}
	if err := r.besideList(r.list(wanted)); err != nil {
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(wanted)) {
		if a := wanted[p]; r.written[p] != a {
			// Invariant (liveness): a broken entry prevents this process from registering only at that
			// entry's place.
			r.written[p] = nil
			if err := r.put(p.in(r.dir.cfg.Pool), record{Address: (*entries.Address)(a)}); r.isBroken(err) {
				kept[p] = err
				continue
			} else if err != nil {
				return nil, err
			}
			r.written[p] = a
			delete(r.broken, p)
		}
	}
	if err := r.withdraw(wanted); err != nil {
		return nil, err
	}
	// A list names only what its holder offers, because Names returns all that is in it, and
	// what is broken.
	if all := r.places(wanted); !r.unlisted && (r.listed == nil || len(r.listed) > len(all)) {
		return kept, r.besideList(r.writeList(all))
	}
	return kept, nil
}

// withdraw clears the entries that are no longer wanted. An entry that somebody broke, so
// that it seems to be newer, stays, as it does in a sweep: it must not keep the holder of
// this node ID from registering.
func (r *registrar) withdraw(wanted map[place]*Address) error {
	for _, p := range slices.Sorted(maps.Keys(r.written)) {
		if wanted[p] != nil || r.broken[p] {
			continue
		}
		err := r.put(p.in(r.dir.cfg.Pool), record{})
		switch {
		case r.isBroken(err):
			r.broken[p] = true
			r.dir.cfg.Logger.Warn("discovery: a corrupt entry stays until it is deleted", "pool", r.dir.cfg.Pool, "node_id", r.session.nodeID, "error", err)
		case err != nil:
			return err
		default:
			delete(r.written, p)
		}
	}
	return nil
}

// isBroken reports whether err is the refusal by an entry that somebody broke.
//
// Invariant: while the lease is held, no later holder exists, so an entry with a higher
// version was broken, even if it can be decoded.
func (r *registrar) isBroken(err error) bool {
	var newer *newerError
	return errors.As(err, &newer) && (newer.now.Corrupt != nil || newer.now.Version > r.session.version && r.held())
}

// held reports whether the agent still has the session's lease.
func (r *registrar) held() bool {
	l, err := r.agent.Lease()
	return err == nil && session{l.NodeID, l.Holder, l.Version} == r.session
}

// begin starts to register with a new lease. It reads which entries an earlier holder of
// the node ID left behind, so that they are replaced or withdrawn like those of this
// process.
func (r *registrar) begin(now session) error {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	old, err := r.dir.cfg.Store.Get(ctx, listsOf(r.dir.cfg.Pool, now.nodeID), now.nodeID)
	if err != nil {
		return err
	}
	r.session, r.revision = now, 0
	r.written, r.broken, r.listed = map[place]*Address{}, map[place]bool{}, nil
	r.unlisted = false
	for _, text := range old.Places {
		if p, ok := parsePlace(text); ok {
			r.written[p] = nil
		}
	}
	return nil
}

// places returns the wanted places, and those whose entries are not withdrawn yet. Broken
// entries are left out if the list has no room for all of them.
func (r *registrar) places(wanted map[place]*Address) map[place]bool {
	all := map[place]bool{}
	for p := range wanted {
		all[p] = true
	}
	for p := range r.written {
		if !r.broken[p] || len(wanted)+len(r.broken) <= maxOffers {
			all[p] = true
		}
	}
	return all
}

// list completes the list of this node ID's entries before the entries are written. So
// every entry that is left behind can be found.
func (r *registrar) list(wanted map[place]*Address) error {
	missing := false
	for p := range wanted {
		missing = missing || !r.listed[p]
	}
	if !missing {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	if err := point(ctx, r.dir.cfg.Store, r.dir.cfg.Pool, r.session.nodeID); err != nil {
		return err
	}
	return r.writeList(r.places(wanted))
}

// writeList replaces the list. An empty list has no holder, so the sweep skips it.
func (r *registrar) writeList(all map[place]bool) error {
	rec := record{}
	for _, p := range slices.Sorted(maps.Keys(all)) {
		rec.Places = append(rec.Places, string(p))
	}
	r.listed = nil
	if err := r.put(listsOf(r.dir.cfg.Pool, r.session.nodeID), rec); err != nil {
		return err
	}
	r.listed, r.unlisted = all, false
	return nil
}

// besideList returns the error of a write of the list, unless the list is broken and seems to
// be newer.
//
// Invariant (liveness): a broken list does not prevent this process from registering anywhere, and
// no call waits for it. If the process dies, nobody finds the entries that it leaves, but they
// are not valid, and cost only their reads.
func (r *registrar) besideList(err error) error {
	if !r.isBroken(err) {
		return err
	}
	if !r.unlisted {
		r.dir.cfg.Logger.Warn("discovery: a corrupt list stays until it is deleted, so Services and the sweep do not see what this process offers", "pool", r.dir.cfg.Pool, "node_id", r.session.nodeID, "error", err)
	}
	r.unlisted = true
	return nil
}

// put writes one record of the session. Each attempt has a higher revision than the
// previous ones, so that an attempt that arrives late cannot replace a newer one.
func (r *registrar) put(partition string, rec record) error {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	r.revision++
	rec.NodeID, rec.Version, rec.Revision = r.session.nodeID, r.session.version, r.revision
	if rec.Address != nil || rec.Places != nil {
		rec.Holder = r.session.holder
	}
	err := put(ctx, r.dir.cfg.Store, partition, rec)
	var newer *newerError
	if errors.As(err, &newer) && newer.now.Version == rec.Version {
		r.revision = newer.now.Revision // the next attempt replaces the newer record
		return fmt.Errorf("another Directory registers with the same lease: use only one: %w", err)
	}
	return err
}
