package leasepool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// ReapReport describes one scan of a pool and the leases that the run freed.
type ReapReport struct {
	Pool string `json:"pool"`
	Held int    `json:"held"` // node IDs with a holder that is not on demand, expired or not
	// Due leases have been expired for more than a minute, and their reserved time has
	// passed.
	Due   []int `json:"due"`
	Freed []int `json:"freed"` // those of Due that this run freed
	// Braked reports that implausibly many leases were due and unchanged at once. The run
	// freed none of them; another scan decides.
	Braked bool `json:"braked"`
	// NextLook is the earliest time at which another run is counted as a scan. It is zero if
	// no lease waits for another scan.
	NextLook time.Time `json:"next_look,omitzero"`
	// Stuck node IDs are reserved or held for hours beyond their lease's length, because
	// their holder's clock was ahead, or because the holder has a long Config.Reserve.
	Stuck   []int   `json:"stuck,omitempty"`
	Corrupt Corrupt `json:"corrupt,omitempty"`
	// Forged lists items that have changed since the reaper's last scan in a way that no
	// write of this module can cause: a version or a reservation that went back, a mark of a
	// widening that never began, or a deleted item. -1 is the pool's own item.
	Forged Corrupt `json:"forged,omitempty"`
	// Cleared is the number of service entries that were removed because their process is
	// gone. Reap leaves it 0; a caller that runs discovery's sweep afterwards sets it.
	Cleared int `json:"cleared"`
}

const (
	// reapAfter is how long a lease must have been expired before it is due. Claimants can
	// take the node ID earlier, so reaping is not urgent.
	reapAfter = time.Minute
	// stuckAfter is how far beyond the longest plausible reservation of its lease a node ID
	// must be reserved or held to be considered stuck.
	stuckAfter = time.Hour
)

// brake returns the largest number of leases that may be freed after only two scans, if
// held leases are held. If more leases are due, this machine's clock may be wrong, or the
// fleet may be about to renew.
func brake(held int) int { return max(8, held/5) }

// apart returns the shortest time between two scans of a pool, from the last answer of
// the first scan to the first request of the second. It is long enough for every holder
// to renew once the table is available again, at a quarter of the 1,000 writes per second
// that one partition accepts. The scans may run on two machines, and the clock of each
// may be off by poolSkew.
func apart(held int) time.Duration {
	return max(30*time.Second, time.Duration(held)*4*time.Millisecond) + 2*poolSkew
}

// Due reports the leases that are due, and frees nothing.
func (p *Pool) Due(ctx context.Context) (ReapReport, error) {
	if err := p.absent(); err != nil {
		return newReport(""), err
	}
	item, err := p.itemInTime(ctx)
	if err != nil {
		return newReport(p.Name), err
	}
	d, err := p.due(ctx, item, nil)
	return d.ReapReport, err
}

// Reap frees the node IDs of dead holders, so that the table shows which holders are
// alive. Nothing else depends on Reap: claimants take over expired leases themselves.
// Reserved milliseconds stay reserved.
//
// One run makes one scan, and a single scan frees nothing. The leases that the scan finds
// due are stored in the table, and a later run frees those that are unchanged; see
// ReapReport.NextLook. Reap may run at any time and on any machine, even concurrently. A
// run with an unanswered request is not counted as a scan, and voids the earlier scans,
// since no holder can renew while the table is unavailable.
func (p *Pool) Reap(ctx context.Context) (ReapReport, error) {
	if err := p.absent(); err != nil {
		return newReport(""), err
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return newReport(p.Name), err
	}
	s := &attentive{Store: p.table()}
	run := &Pool{Name: p.Name, Progress: p.Progress, Logger: p.Logger, store: s}
	// If an earlier run of this process could not reset the memory in the table after an
	// error, this run does so.
	if p.doubt.Load() && run.forget(ctx) == nil {
		p.doubt.Store(false)
	}
	r, err := run.reap(ctx, s)
	if !s.failed.Load() {
		return r, err
	}
	r.NextLook = time.Time{}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
	}
	p.doubt.Store(run.forget(ctx) != nil)
	if err == nil || errors.Is(err, errUnanswered) {
		p.logger().Warn("reap: a request had no answer, so that this run is no look and those before it no longer count", "pool", p.Name, "freed", r.Freed, "error", *s.first.Load())
		err = nil
	}
	return r, err
}

func (p *Pool) reap(ctx context.Context, s *attentive) (ReapReport, error) {
	item, err := p.itemInTime(ctx)
	if err != nil {
		return newReport(p.Name), err
	}
	memory, err := p.recall(ctx)
	if err != nil {
		return newReport(p.Name), err
	}
	begun := time.Now()
	last := memory.Look
	if last != nil && last.Ended.After(begun.Add(2*poolSkew)) {
		last = nil // by a clock too wrong for a reaper
	}
	waiting := last != nil && begun.Before(last.Next())
	if last != nil && !waiting {
		// The last scan is removed from the table, so that no other reaper acts on it,
		// even if this run ends early.
		if memory, err = p.remember(ctx, memory, nil); err != nil {
			return newReport(p.Name), err
		}
	}
	d, err := p.due(ctx, item, (*auditor).keep)
	r := d.ReapReport
	if err == nil && d.claimed {
		p.finalizeLayout(ctx, item)
	}
	switch {
	case err != nil:
		return r, err
	case s.failed.Load() || memory.Revision == taken:
		return r, nil
	case waiting:
		r.NextLook = last.Next()
		return r, nil
	}
	look := &protocol.ReaperLook{Ended: time.Now(), Wait: apart(r.Held), Count: 1, Held: r.Held}
	rest := d.due // for the next scan to compare with
	if last != nil {
		held := max(r.Held, last.Held)
		if begun.Sub(last.Ended) < apart(held) { // more leases are held than at the last scan, so the scans must be further apart
			look, rest = last, nil
			look.Wait = max(look.Wait, apart(held))
		} else if unchanged := d.unchangedSince(last); d.believe(&r, last.Count+1, unchanged) {
			freed, err := p.free(ctx, d, unchanged, &r)
			if err != nil || s.failed.Load() {
				return r, err
			}
			for _, n := range freed {
				delete(rest, n)
			}
		} else {
			// Leases that have become due since the last scan are left out, because all
			// candidates in the memory must have been seen by the same number of scans.
			look.Count, look.Braked, rest = last.Count+1, r.Braked, unchanged
			if r.Braked {
				look.Wait = max(look.Wait, d.longest(unchanged)+2*poolSkew)
			}
			p.logger().Warn("reap: so many leases are due at once, or nobody renews, that their holders may be about to come back: another scan decides",
				"pool", p.Name, "due", len(unchanged), "held", r.Held, "at_once", brake(r.Held), "next_look", look.Next())
		}
	}
	if rest != nil {
		look.Candidates = rest.encode()
	}
	if look.Candidates == "" {
		return r, nil
	}
	if memory, err = p.remember(ctx, memory, look); err == nil && memory.Revision != taken {
		r.NextLook = look.Next()
	}
	return r, err
}

// believe decides whether leases that several scans have found due and unchanged are
// freed. Two scans are enough if only a few leases are due and other holders renew. If
// more leases are due than brake allows, or all leases of the pool are due, their holders
// may be a fleet that could not renew because of an outage with a short break.
func (d dues) believe(r *ReapReport, looks int, unchanged candidates) bool {
	if len(unchanged) == 0 || looks > 2 {
		return true
	}
	r.Braked = len(unchanged) > brake(r.Held)
	return !r.Braked && d.alive > 0
}

// dues is the result of a scan.
type dues struct {
	ReapReport
	alive   int  // leases that have not expired
	claimed bool // a node ID was ever claimed
	due     candidates
	seen    map[int]protocol.Lease // the leases that are due
}

func newReport(pool string) ReapReport {
	return ReapReport{Pool: pool, Due: []int{}, Freed: []int{}}
}

// unchangedSince returns the candidates of an earlier scan that are still due, with the
// same holder, version and renewal.
func (d dues) unchangedSince(l *protocol.ReaperLook) candidates {
	before, _ := decodeCandidates(l.Candidates) // none if the text is invalid
	same := candidates{}
	for n, f := range d.due {
		if was, ok := before[n]; ok && was == f {
			same[n] = f
		}
	}
	return same
}

// longest returns the length of the longest lease among the given candidates.
func (d dues) longest(some candidates) (ttl time.Duration) {
	for n := range some {
		ttl = max(ttl, d.seen[n].TTL)
	}
	return ttl
}

// due reads every node ID that can be held, and compares each with its watermark. keep,
// if not nil, updates the watermarks.
func (p *Pool) due(ctx context.Context, item protocol.PoolItem, keep func(*auditor, context.Context, Corrupt) error) (dues, error) {
	audit, unread := p.audit(ctx, item)
	d := dues{ReapReport: newReport(p.Name), due: candidates{}, seen: map[int]protocol.Lease{}}
	now := time.Now()
	err := p.sweepOpen(ctx, item, &d.Corrupt, func(_ context.Context, s *sweep, n int, g protocol.Group) error {
		audit.see(n, g)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range g.Leases {
			d.claimed = d.claimed || l.Version > 0
			if stuck(l, now) {
				d.Stuck = append(d.Stuck, l.NodeID)
			}
			// The lease of an on-demand holder that sleeps or is gone expires by design. Freeing
			// the lease would cost a write, and the holder's next use would cost another.
			if l.Holder == "" || l.OnDemand {
				continue
			}
			d.Held++
			switch {
			case !l.ExpiresAt.Before(now):
				d.alive++
			// A node ID with reserved milliseconds ahead of now cannot be claimed, and its holder
			// may still make IDs. Freeing the node ID would only stop that process.
			case l.ExpiresAt.Add(reapAfter).Before(now) && l.ReservedUntil.Add(poolSkew).Before(now):
				d.Due = append(d.Due, l.NodeID)
				d.due[l.NodeID], d.seen[l.NodeID] = fingerprintOf(l), l
			}
		}
		return nil
	})
	slices.Sort(d.Due)
	slices.Sort(d.Stuck)
	if err != nil {
		return d, err
	}
	if unread == nil {
		d.Forged, unread = audit.found(ctx)
	}
	if unread == nil && keep != nil {
		unread = keep(audit, ctx, d.Forged)
	}
	if unread != nil {
		p.logger().Warn("what was seen before could not be compared, so that forged items may not be noticed", "pool", p.Name, "error", unread)
	}
	return d, nil
}

// stuck reports whether a node ID is reserved or held for hours beyond the longest
// plausible reservation of its lease. The lease's length alone does not show how long the
// reservation can be: a lease that had grown and is short again still has its long
// reservation.
//
// The item does not show how far ahead its holder may reserve, either. A node ID is never
// stuck if it is reserved for no longer than the default of MaxReserve plus stuckAfter.
// Beyond that, a held node ID is stuck if its holder's clock was ahead at the last
// renewal; by that clock, the renewal was sent one lease length before the expiry. A node
// ID without a holder may be reserved for half of the time that its last holder lived.
func stuck(l protocol.Lease, now time.Time) bool {
	last := protocol.Latest(l.ExpiresAt, l.ReservedUntil)
	if !last.After(now.Add(max(l.TTL, tenure.DefaultMaxReserve) + stuckAfter)) {
		return false
	}
	if l.Holder != "" {
		return l.ExpiresAt.Add(-l.TTL).After(now.Add(stuckAfter))
	}
	began, ok := beganAt(l.Predecessor())
	return !ok || last.After(now.Add(min(now.Sub(began)/2, protocol.MaxTTL)+stuckAfter))
}

// beganAt returns when a holder's session began, by the clock of the holder's machine.
// The name of a session is a UUIDv7, which contains this time.
func beganAt(p *protocol.Previous) (time.Time, bool) {
	if p == nil {
		return time.Time{}, false
	}
	id, err := uuid.Parse(p.Session)
	if err != nil || id.Version() != 7 {
		return time.Time{}, false
	}
	s, ns := id.Time().UnixTime()
	return time.Unix(s, ns), true
}

func (p *Pool) logger() *slog.Logger {
	if p.Logger != nil {
		return p.Logger
	}
	return slog.Default()
}
