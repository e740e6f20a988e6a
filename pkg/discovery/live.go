package discovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// holders are the holders of some leases, by node ID.
type holders map[int]holder

// holder is the relevant part of a lease: its session, and when it ends.
type holder struct {
	session string
	version int64
	expires time.Time
}

// of returns when the lease that the entry names ends; zero if, according to h, that lease
// is not held.
func (h holders) of(r record) time.Time {
	if l := h[r.NodeID]; r.Holder != "" && l.session == r.Holder && l.version == r.Version {
		return l.expires
	}
	return time.Time{}
}

// ended reports whether a lease that was live when h was read, at time at, has expired by
// now, unless it was renewed since.
func (h holders) ended(entries []record, at time.Time) bool {
	now := time.Now()
	for _, r := range entries {
		if ends := h.of(r); ends.After(at) && !ends.After(now) {
			return true
		}
	}
	return false
}

// unaware reports whether an entry belongs to a lease that was claimed after h was read.
func (h holders) unaware(entries []record) bool {
	for _, r := range entries {
		if r.Version > h[r.NodeID].version {
			return true
		}
	}
	return false
}

// againAfter is the minimum age of an answer before it is read again earlier than MaxAge
// requires.
const againAfter = 500 * time.Millisecond

// group is the content of one group of leases, and when and how it was read.
type group struct {
	holders
	at     time.Time
	strong bool // read strongly consistent
}

// shows reports whether g suffices to decide which entries have a live lease. A page that
// was read at half the price may be seconds old. A lease that is missing in the page, or
// by the page has ended or will end before the next read, may have been claimed or renewed
// since. So only a strong read shows that a lease has ended, except for the leases in
// known, which an earlier strong read has shown to have ended.
func (g group) shows(entries []record, known doubt) bool {
	return g.strong || !g.unaware(entries) && known.covers(g.doubted(entries, time.Now().Add(againAfter), doubt{}))
}

// read returns the holders of the entries' leases, and the time of the oldest answer. It
// reads whole groups, concurrently, if their last answer is too old, and never each lease
// by itself. An earlier strong read has shown that the leases in known have ended.
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

// readGroup reads one group of leases at half the price, and then, if that does not show
// which entries count, strongly consistent.
func (d *Directory) readGroup(ctx context.Context, n int, entries []record, known doubt) (group, error) {
	g := group{at: time.Now()}
	var err error
	if g.holders, err = readHolders(ctx, d.pool, n); err != nil || g.shows(entries, known) {
		return g, err
	}
	g = group{at: time.Now(), strong: true}
	page, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) {
		return d.cfg.Store.Leases().Group(ctx, d.cfg.Pool, n)
	})
	g.holders = holdersOf(page)
	return g, err
}

// readHolders reads one group eventually consistent, at half the price.
func readHolders(ctx context.Context, p *leasepool.Pool, group int) (holders, error) {
	g, err := p.Glance(ctx, group)
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
