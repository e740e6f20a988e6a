package discovery

import (
	"context"
	"strconv"
	"time"
)

// What one reader found out about the leases of a place, it leaves there for the
// others, as the record of number -1: their one Query brings it along, and they
// read no lease. It says what the leases are, and not who lives: that each reader
// judges by its own clock. Version is when the leases were read, in milliseconds,
// so that the newest stays.
const sharedNode = -1

// lent is what is said of a number: the version of its entry, and when the lease
// of that version ends; 0: it is over.
type lent struct {
	Version int64 `dynamodbav:"version"`
	Ends    int64 `dynamodbav:"ends,omitempty"`
}

// share makes the record of what was read of entries' leases.
func share(entries []record, h holders, at time.Time) record {
	r := record{NodeID: sharedNode, Version: at.UnixMilli(), Leases: map[string]lent{}}
	for _, e := range entries {
		if h[e.NodeID].version < e.Version {
			continue // read too early to know
		}
		l := lent{Version: e.Version}
		if ends := h.of(e); !ends.IsZero() {
			l.Ends = ends.UnixMilli()
		}
		r.Leases[strconv.Itoa(e.NodeID)] = l
	}
	return r
}

// shared is what the record says about entries, and when that was so.
func (r record) shared(entries []record) (holders, time.Time) {
	h := holders{}
	for _, e := range entries {
		l := r.Leases[strconv.Itoa(e.NodeID)]
		known := holder{version: l.Version}
		if l.Ends != 0 && l.Version == e.Version {
			known.session, known.expires = e.Holder, time.UnixMilli(l.Ends)
		}
		h[e.NodeID] = known
	}
	return h, time.UnixMilli(r.Version)
}

// view is what is known of a place: its entries, and what their leases were.
type view struct {
	entries []record
	leases  holders
	at      time.Time // when they were
}

// look reads a place with one Query, and, where nobody has done that lately, the
// leases of its entries.
func (d *Directory) look(ctx context.Context, p place) (view, error) {
	all, err := d.cfg.Store.query(ctx, p.in(d.cfg.Pool))
	if err != nil {
		return view{}, err
	}
	var v view
	var left record
	for _, r := range all {
		switch {
		case r.NodeID == sharedNode:
			left = r
		case r.NodeID >= 0 && r.Holder != "" && r.Address != nil:
			v.entries = append(v.entries, r)
		}
	}
	if len(v.entries) == 0 {
		return v, nil
	}
	v.leases, v.at = left.shared(v.entries)
	// One that is ahead of this clock would never be old.
	if age := time.Since(v.at); age >= 0 && age < d.cfg.MaxAge && !v.leases.ended(v.entries, v.at) && !v.leases.unaware(v.entries) {
		return v, nil
	}
	if v.leases, v.at, err = d.read(ctx, v.entries); err == nil {
		d.publish(ctx, p, share(v.entries, v.leases, v.at))
	}
	return v, err
}

// publish leaves it for others. Who may not write here, or cannot, has what it
// needs all the same.
func (d *Directory) publish(ctx context.Context, p place, r record) {
	d.mu.Lock()
	off := time.Now().Before(d.mute)
	d.mu.Unlock()
	if off {
		return
	}
	if _, _, err := d.cfg.Store.write(ctx, p.in(d.cfg.Pool), r); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mute = time.Now().Add(time.Minute)
	}
}
