package discovery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// holders is what one group of leases says, by number.
type holders map[int]holder

// holder is what counts of a lease: who, and until when.
type holder struct {
	session string
	version int64
	expires time.Time
}

// of tells until when the entry's holder has the lease: zero if it has not.
func (h holders) of(r record) time.Time {
	if l := h[r.NodeID]; r.Holder != "" && l.session == r.Holder && l.version == r.Version {
		return l.expires
	}
	return time.Time{}
}

// againAfter is how old leases are before they are read again earlier than
// MaxAge asks for.
const againAfter = 500 * time.Millisecond

// good reports whether leases read at a time still tell which of the entries
// count. Old ones show a lease as ended that was renewed since, or do not know
// an entry's lease yet.
func (h holders) good(entries []record, at time.Time, maxAge time.Duration) bool {
	now := time.Now()
	switch age := now.Sub(at); {
	case age >= maxAge:
		return false
	case age < againAfter:
		return true
	}
	for _, r := range entries {
		ends := h.of(r)
		if ends.After(at) && !ends.After(now) || r.Version > h[r.NodeID].version {
			return false
		}
	}
	return true
}

// live leaves of the entries those whose lease is live, and tells when the first
// of these leases ends. The leases are read by the group: no read per instance.
func (d *Directory) live(ctx context.Context, entries []record) (list []Instance, ends time.Time, err error) {
	byGroup := map[int][]record{}
	for _, r := range entries {
		if r.Holder == "" || r.Address == nil {
			continue
		}
		if d.cfg.Live == nil {
			byGroup[r.NodeID/lease.GroupSize] = append(byGroup[r.NodeID/lease.GroupSize], r)
		} else if d.cfg.Live(r.NodeID, r.Version) {
			list = append(list, r.instance())
		}
	}
	groups, err := d.holders(ctx, byGroup)
	if err != nil {
		return nil, ends, err
	}
	now := time.Now()
	for _, r := range entries {
		until := groups[r.NodeID/lease.GroupSize].of(r)
		if r.Address == nil || !until.After(now) {
			continue
		}
		list = append(list, r.instance())
		if ends.IsZero() || until.Before(ends) {
			ends = until
		}
	}
	return list, ends, nil
}

// holders reads the groups that entries are in, those that need it, all at once.
func (d *Directory) holders(ctx context.Context, byGroup map[int][]record) (map[int]holders, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, errs := map[int]holders{}, []error{}
	for n, entries := range byGroup {
		wg.Go(func() {
			h, err := d.group(n).get(ctx,
				func(h holders, at time.Time) bool { return h.good(entries, at, d.cfg.MaxAge) },
				func(ctx context.Context) (holders, error) { return readHolders(ctx, d.pool, n) })
			mu.Lock()
			defer mu.Unlock()
			all[n], errs = h, append(errs, err)
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

func (d *Directory) group(n int) *cached[holders] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.groups[n] == nil {
		d.groups[n] = newCached[holders]()
	}
	return d.groups[n]
}

// readHolders reads one group, at half the price.
func readHolders(ctx context.Context, p *lease.Pool, group int) (holders, error) {
	g, err := p.Glance(ctx, group)
	if err != nil {
		return nil, err
	}
	h := make(holders, len(g.Leases))
	for _, l := range g.Leases { // a corrupt one is nobody's
		h[l.NodeID] = holder{l.Holder, l.Version, l.ExpiresAt}
	}
	return h, nil
}
