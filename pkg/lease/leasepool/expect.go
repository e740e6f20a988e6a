package leasepool

import (
	"context"

	"github.com/nodelease/nodelease/internal/protocol"
)

// makeRoom opens the groups that a new pool of this size would have open if expect
// holders were expected, since the pool's agents may not be permitted to open groups. A
// narrow pool then gets the width for these groups, in one change.
//
// makeRoom never closes groups or reduces the width. If fewer holders are expected than
// before, groups stay open, since they may contain leases.
func (p *Pool) makeRoom(ctx context.Context, c *Changes, expect int) error {
	before := c.Pool.OpenGroups
	for {
		expect = max(expect, c.Pool.Expect)
		open := max(c.Pool.OpenGroups, protocol.GroupsFor(c.Pool, expect))
		if !c.Pool.Narrow() {
			open = max(open, openAtFirst(c.Pool.Size))
		}
		if expect == c.Pool.Expect && open == c.Pool.OpenGroups {
			break
		}
		item, err := p.change(ctx, protocol.ExpectHolders{Pool: p.Name, Revision: c.Pool.Revision, Expect: expect, OpenGroups: open})
		if err != nil {
			return err
		}
		c.Pool = item
	}
	// An earlier run may have opened the groups and been cut off before the pool was wide
	// enough for them.
	short := c.Pool.Narrow() && c.Pool.Bits() < protocol.BitsFor(protocol.GroupsFor(c.Pool, expect))
	if _, wider := c.Pool.NextBits(); !wider || c.Pool.OpenGroups == before && !short {
		return nil
	}
	w, err := p.widen(ctx, true)
	c.Seeded, c.Marked = c.Seeded+w.Seeded, c.Marked+w.Marked
	for n, defect := range w.Corrupt {
		if c.Corrupt == nil {
			c.Corrupt = Corrupt{}
		}
		c.Corrupt[n] = defect
	}
	if err == nil {
		c.Pool = w.Pool
	}
	return err
}
