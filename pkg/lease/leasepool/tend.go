package leasepool

import (
	"context"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Tend does for a pool what agents do that may write its item: it opens as many
// groups again when the newest one is at least three quarters held, and lets the width of a
// narrow pool follow its open groups. The reaper function calls it at each run, so
// that a pool grows whose agents have no such permission. A pool that has all of its
// groups open, and its width, costs one read.
func (p *Pool) Tend(ctx context.Context) (Changes, error) {
	item, err := p.itemInTime(ctx)
	c := Changes{Pool: item}
	if err != nil {
		return c, err
	}
	if _, last := item.GroupsOpen(); last+1 < item.UsableGroups() {
		g, err := p.Glance(ctx, last)
		if err != nil {
			return c, err
		}
		held, usable := 0, 0
		for _, l := range g.Leases {
			if l.Retired || l.NodeID < item.ExcludeBelow || l.NodeID >= item.Limit() {
				continue
			}
			usable++
			if l.Holder != "" {
				held++
			}
		}
		if 4*held >= 3*usable && usable > 0 {
			// Pinned on the groups that were seen: an agent that is faster has done it.
			if c.Pool, err = p.change(ctx, protocol.OpenGroups{Pool: p.Name, From: item.OpenGroups, To: protocol.OpenNext(item)}); err != nil {
				return c, err
			}
		}
	}
	if _, wider := c.Pool.NextBits(); wider || c.Pool.Widening.State == protocol.WidenOpen {
		return p.Widen(ctx)
	}
	return c, nil
}
