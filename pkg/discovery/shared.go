package discovery

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// sharedNode is the node ID of the record in which a reader of a place's leases stores
// its findings for other readers. Their Query of the place returns this record, so they
// need not read the leases. The record contains the times at which the leases end. Each
// reader decides by its own clock which leases are live. The record's Version is the
// number of its writes, so that a reader whose clock is ahead cannot store a record that
// is never replaced.
const sharedNode = -1

// maxShared is a Version that only a corrupt record reaches. Readers do not replace such
// a record, because its Version cannot be incremented forever.
const maxShared = 1 << 53

// maxSharedLeases is the number of leases for which a record has room; a record has at
// most 400 KB.
const maxSharedLeases = 8192

// share returns the record with the findings h about the entries' leases. It replaces
// found, the record that the reader found at the place.
func share(found record, entries []record, h holders, at time.Time) record {
	r := record{NodeID: sharedNode, Version: found.Version + 1, ReadAt: at.UnixMilli(), Leases: map[string]finding{}}
	for _, e := range entries {
		if h[e.NodeID].version < e.Version {
			continue // the lease was read before it had the entry's version
		}
		l := finding{Version: e.Version}
		if ends := h.of(e); !ends.IsZero() {
			l.Ends = ends.UnixMilli()
		}
		r.Leases[strconv.Itoa(e.NodeID)] = l
	}
	return r
}

// shared returns the record's findings about the leases of entries, and when these leases
// were read.
func shared(r record, entries []record) (holders, time.Time) {
	h := holders{}
	for _, e := range entries {
		l := r.Leases[strconv.Itoa(e.NodeID)]
		known := holder{version: l.Version}
		if l.Ends != 0 && l.Version == e.Version {
			known.session, known.expires = e.Holder, time.UnixMilli(l.Ends)
		}
		h[e.NodeID] = known
	}
	return h, time.UnixMilli(r.ReadAt)
}

// view is an answer about a place: its entries, and the state of their leases.
type view struct {
	entries []record
	leases  holders
	at      time.Time // when the leases were read
	decided time.Time // when it was decided which leases are live
	doubt   doubt
	corrupt int // the number of entries that were skipped
}

// doubt describes leases that have expired, but were neither released nor claimed by
// another holder. Either their holders have died, or the holders will resume the leases
// as soon as an outage is over.
type doubt struct {
	nodes []int         // the node IDs, sorted
	lasts time.Duration // how long the answer is reused; 0 if there is no doubt
}

// covers reports whether d contains all leases of other.
func (d doubt) covers(other doubt) bool {
	return !slices.ContainsFunc(other.nodes, func(n int) bool {
		_, known := slices.BinarySearch(d.nodes, n)
		return !known
	})
}

// longestDoubt is the longest time for which an answer in doubt is reused.
const longestDoubt = defaultMaxAge

// doubted returns the doubt about the entries' leases at time now; before is the doubt of
// the previous answer. Each answer with the same doubt is reused for twice as long as the
// previous one: at first, an outage may just have ended; later, the holders are more
// likely to have died.
func (h holders) doubted(entries []record, now time.Time, before doubt) doubt {
	var d doubt
	for _, r := range entries {
		if ends := h.of(r); !ends.IsZero() && !ends.After(now) {
			d.nodes = append(d.nodes, r.NodeID)
		}
	}
	switch {
	case len(d.nodes) == 0:
	case before.lasts > 0 && slices.Equal(before.nodes, d.nodes):
		d.lasts = min(2*before.lasts, longestDoubt)
	default:
		d.lasts = againAfter
	}
	return d
}

// look reads a place with one Query. It also reads the leases of the place's entries,
// unless a reader has recently stored findings about them. before is the previous answer
// about the place.
func (d *Directory) look(ctx context.Context, p place, before view) (view, error) {
	all, err := queryAll(ctx, d.cfg.Store, d.cfg.Pool, p)
	if err != nil {
		return view{}, err
	}
	var v view
	var left record
	for _, r := range all {
		switch {
		case r.NodeID == sharedNode:
			left = r
		case checkEntry(r, p) != nil:
			if v.corrupt++; v.corrupt > before.corrupt {
				d.cfg.Logger.Warn("discovery: a corrupt entry is skipped", "pool", d.cfg.Pool, "place", p, "node_id", r.NodeID, "error", checkEntry(r, p))
			}
		case r.Holder != "":
			v.entries = append(v.entries, r)
		}
	}
	if len(v.entries) == 0 {
		return v, nil
	}
	v.leases, v.at = shared(left, v.entries)
	// A record whose time is ahead of this reader's clock is not used, because it could
	// be used for too long. A record that shows a lease as expired is not used either,
	// because the lease may have been renewed since the record was written.
	v.decided = time.Now()
	age, in := v.decided.Sub(v.at), v.leases.doubted(v.entries, v.decided, doubt{})
	if !d.cfg.Alone && age >= 0 && age < d.cfg.MaxAge && in.lasts == 0 && !v.leases.unaware(v.entries) {
		return v, nil
	}
	stored := false
	for again := false; ; again = true {
		if v.leases, v.at, err = d.read(ctx, v.entries, before.doubt); err != nil {
			return v, err
		}
		// An answer in doubt is not stored for others: after an outage, the first reader would
		// make the others believe that there are no instances.
		doubted := v.leases.doubted(v.entries, time.Now(), doubt{}).lasts > 0
		if !stored && !doubted && !d.cfg.Alone && left.Version < maxShared && len(v.entries) <= maxSharedLeases {
			stored = true
			d.publish(ctx, p, share(left, v.entries, v.leases, v.at))
		}
		// While one group was read, or the answer was stored, a lease of another group may have
		// expired according to the earlier answer about that group, although the lease was
		// renewed since. Only leases that were just read show that a lease has ended.
		v.decided = time.Now()
		if again || !v.leases.ended(v.entries, v.at, v.decided) || v.decided.Sub(v.at) < againAfter {
			break
		}
	}
	v.doubt = v.leases.doubted(v.entries, v.decided, before.doubt)
	return v, nil
}

// publish stores the findings for others. It returns no error: if a reader may not or
// cannot write, it still has its answer. After a failed write, it does not write again
// for a minute.
func (d *Directory) publish(ctx context.Context, p place, r record) {
	d.mu.Lock()
	off := time.Now().Before(d.mute)
	d.mu.Unlock()
	if off {
		return
	}
	now, _, err := d.cfg.Store.Write(ctx, p.in(d.cfg.Pool), r)
	if err == nil {
		err = now.Corrupt // it refuses each write
	}
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // a caller that gave up says nothing about the store
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mute = time.Now().Add(time.Minute)
	}
}
