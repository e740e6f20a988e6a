package discovery

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// A reader that has read the leases of a place stores its findings there for the others,
// as the record of node ID -1: their single Query returns it, and they read no lease. It
// describes the leases; each reader judges by its own clock which of them are live.
// Version counts the writes, so that a reader whose clock is ahead cannot store a record
// that is never replaced.
const sharedNode = -1

// maxShared is the largest Version that a reader continues from: only a corrupt record
// has a larger one, and nothing could be written after it.
const maxShared = 1 << 53

// maxSharedLeases is the number of leases for which a record has room, in 400 KB.
const maxSharedLeases = 8192

// share returns the record with findings about the entries' leases, to replace the one
// that the reader found.
func share(found record, entries []record, h holders, at time.Time) record {
	r := record{NodeID: sharedNode, Version: found.Version + 1, ReadAt: at.UnixMilli(), Leases: map[string]finding{}}
	for _, e := range entries {
		if h[e.NodeID].version < e.Version {
			continue // read too early to know
		}
		l := finding{Version: e.Version}
		if ends := h.of(e); !ends.IsZero() {
			l.Ends = ends.UnixMilli()
		}
		r.Leases[strconv.Itoa(e.NodeID)] = l
	}
	return r
}

// shared returns the record's findings about entries, and their time.
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

// view is the knowledge about a place: its entries, and the state of their leases.
type view struct {
	entries []record
	leases  holders
	at      time.Time // the time of that state
	doubt   doubt
	corrupt int // entries that were skipped
}

// doubt is about leases that expired and were neither released nor taken: their
// holders died, or resume them as soon as an outage is over.
type doubt struct {
	nodes []int         // the node IDs, sorted
	lasts time.Duration // how long the answer counts; 0: there is no doubt
}

// covers reports whether all leases of another doubt are in this one.
func (d doubt) covers(other doubt) bool {
	return !slices.ContainsFunc(other.nodes, func(n int) bool {
		_, known := slices.BinarySearch(d.nodes, n)
		return !known
	})
}

// longestDoubt bounds the time until an answer in doubt is read again.
const longestDoubt = defaultMaxAge

// doubted returns the doubt about leases as of now, after an answer with the
// previous doubt. Each answer with the same doubt counts twice as long as the last
// one: at first an outage may just have ended, later the holders are more likely
// dead.
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

// look reads a place with one Query, and, if no reader has done that recently, the leases
// of its entries. It continues from the previous answer.
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
	// A record that is ahead of this clock would never be old. A lease that has
	// expired may be live again since: the record was read too early for this
	// reader, whatever the time was by its clock.
	age, in := time.Since(v.at), v.leases.doubted(v.entries, time.Now(), doubt{})
	if !d.cfg.Alone && age >= 0 && age < d.cfg.MaxAge && in.lasts == 0 && !v.leases.unaware(v.entries) {
		return v, nil
	}
	for again := false; ; again = true {
		if v.leases, v.at, err = d.read(ctx, v.entries, before.doubt); err != nil {
			return v, err
		}
		// A group that was good when the reading began may have a lease that expired while
		// another group was read, and was renewed long ago: only leases that were just
		// read show that one has ended.
		if again || !v.leases.ended(v.entries, v.at) || time.Since(v.at) < againAfter {
			break
		}
	}
	// An answer in doubt is not stored for others: after an outage, the first
	// reader would make them believe that there are no instances.
	if v.doubt = v.leases.doubted(v.entries, time.Now(), before.doubt); v.doubt.lasts == 0 && !d.cfg.Alone && left.Version < maxShared && len(v.entries) <= maxSharedLeases {
		d.publish(ctx, p, share(left, v.entries, v.leases, v.at))
	}
	return v, nil
}

// publish stores the findings for others. A reader that may not write, or cannot,
// still has its answer.
func (d *Directory) publish(ctx context.Context, p place, r record) {
	d.mu.Lock()
	off := time.Now().Before(d.mute)
	d.mu.Unlock()
	if off {
		return
	}
	if _, _, err := d.cfg.Store.Write(ctx, p.in(d.cfg.Pool), r); err != nil && !errors.Is(ctx.Err(), context.Canceled) { // a caller that gave up says nothing about the store
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mute = time.Now().Add(time.Minute)
	}
}
