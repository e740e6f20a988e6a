package discovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// holders contains the holders of leases, by node ID.
type holders map[int]holder

// holder is the relevant part of a lease: its session and version, and when it ends.
type holder struct {
	session string
	version int64
	expires time.Time
}

// of returns when the lease that an entry names ends. It returns the zero time if,
// according to h, that lease is not held.
func (h holders) of(r record) time.Time {
	if l := h[r.NodeID]; r.Holder != "" && l.session == r.Holder && l.version == r.Version {
		return l.expires
	}
	return time.Time{}
}

// ended reports whether, according to h, a lease has expired between the time at, when h
// was read, and now. The lease may have been renewed since then.
func (h holders) ended(entries []record, at, now time.Time) bool {
	for _, r := range entries {
		if ends := h.of(r); ends.After(at) && !ends.After(now) {
			return true
		}
	}
	return false
}

// unaware reports whether an entry names a lease that was claimed after h was read.
func (h holders) unaware(entries []record) bool {
	for _, r := range entries {
		if r.Version > h[r.NodeID].version {
			return true
		}
	}
	return false
}

// againAfter is the minimum age at which an answer is read again before it is as old as
// MaxAge.
const againAfter = 500 * time.Millisecond

// group is the content of one group of leases, and when and how the group was read.
type group struct {
	holders
	at     time.Time
	strong bool // whether the read was strongly consistent
}

// shows reports whether g suffices to decide which entries have a live lease. The result
// of an eventually consistent read may be seconds old. If a lease is missing in it, the
// lease may have been claimed since. If, according to it, a lease has ended or will end
// before the next read, the lease may have been renewed since. So only a strong read
// shows that a lease has ended. The leases in known need no strong read, because an
// earlier one has shown that they have ended.
func (g group) shows(entries []record, known doubt) bool {
	return g.strong || !g.unaware(entries) && known.covers(g.doubted(entries, time.Now().Add(againAfter), doubt{}))
}

// read returns the holders of the entries' leases, and the time of the oldest answer. It
// never reads leases one by one: it reads each group whose last answer is too old as a
// whole, several groups concurrently. An earlier strong read has shown that the leases in
// known have ended.
func (d *Directory) read(ctx context.Context, entries []record, known doubt) (holders, time.Time, error) {
	byGroup := map[int][]record{}
	for _, r := range entries {
		byGroup[r.NodeID/protocol.GroupSize] = append(byGroup[r.NodeID/protocol.GroupSize], r)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, oldest, errs := holders{}, time.Now(), []error{}
	for n, entries := range byGroup {
		good := func(g group, at time.Time) bool {
			age := time.Since(at)
			in := g.doubted(entries, time.Now(), doubt{})
			return age < min(againAfter, d.cfg.MaxAge) && g.shows(entries, known) || age < d.cfg.MaxAge && in.lasts == 0 && !g.unaware(entries)
		}
		wg.Go(func() {
			g, err := d.group(n).get(ctx, good, func(ctx context.Context) (group, error) {
				return d.readGroup(ctx, n, entries, known)
			})
			mu.Lock()
			defer mu.Unlock()
			for _, r := range entries {
				all[r.NodeID] = g.holders[r.NodeID]
			}
			if g.at.Before(oldest) {
				oldest = g.at
			}
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return all, oldest, errors.Join(errs...)
}

func (d *Directory) group(n int) *cached[group] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.groups[n] == nil {
		d.groups[n] = newCached[group]()
	}
	return d.groups[n]
}

// readGroup reads one group of leases with an eventually consistent read, at half the
// price. If the result does not suffice to decide which entries have a live lease, it
// reads the group again with a strongly consistent read.
func (d *Directory) readGroup(ctx context.Context, n int, entries []record, known doubt) (group, error) {
	g := group{at: time.Now()}
	var err error
	if g.holders, err = readHolders(ctx, d.cfg.Store.Leases(), d.cfg.Pool, n); err != nil || g.shows(entries, known) {
		return g, err
	}
	g = group{at: time.Now(), strong: true}
	page, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) {
		return d.cfg.Store.Leases().Group(ctx, d.cfg.Pool, n)
	})
	g.holders = holdersOf(page)
	return g, err
}

// readHolders reads one group with an eventually consistent read, at half the price.
func readHolders(ctx context.Context, s lease.Store, pool string, group int) (holders, error) {
	g, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) {
		return protocol.EventualGroup(ctx, s, pool, group)
	})
	if err != nil {
		return nil, err
	}
	return holdersOf(g), nil
}

func holdersOf(g protocol.Group) holders {
	h := make(holders, len(g.Leases))
	for _, l := range g.Leases { // a corrupt lease has no holder
		h[l.NodeID] = holder{l.Holder, l.Version, l.ExpiresAt}
	}
	return h
}
