package leasepool

import (
	"context"
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Tend maintains a pool, as agents with permission to write its item do. It doubles the
// number of open groups when at least three quarters of the newest open group are held,
// and adapts the width of a narrow pool to its open groups. The reaper function calls
// Tend at each run, and the bootstrap function calls it after a seed, so that pools whose
// agents lack that permission grow too. If all groups of the pool are open and its width
// fits them, this costs one read.
//
// Tend also stores a verdict on the table, so that agents need not check the table at
// each start, and updates hint cards that are out of date.
func (p *Pool) Tend(ctx context.Context) (Changes, error) {
	if err := p.absent(); err != nil {
		return Changes{}, err
	}
	c, err := p.tend(ctx)
	if c.Pool.Size == 0 || errors.Is(err, protocol.ErrClockSkew) { // no item was read, or the time of a verdict would be wrong
		return c, err
	}
	err = errors.Join(err, p.vouch(ctx, &c))
	p.tryPublish(ctx, c.Pool)
	return c, err
}

// vouchAge is the age from which a verdict is renewed. It leaves time for several failed
// runs before the verdict is no longer valid.
const vouchAge = protocol.VerdictAge / 3

// vouch checks whether the table can keep leases, and stores the verdict if the stored
// one is different or old. Only Tend stores verdicts: an agent that finds no verdict when
// it starts checks the table itself and does not store the result. Otherwise a whole herd
// would write the pool's item at once.
func (p *Pool) vouch(ctx context.Context, c *Changes) error {
	judge, ok := p.table().(protocol.Judge)
	if !ok {
		return nil
	}
	v, err := judge.Judge(ctx)
	if errors.Is(err, protocol.ErrUnchecked) {
		err = nil // ignored, as when an agent starts
	}
	if v == nil {
		return err
	}
	v.By = "tend"
	// A verdict that differs from the stored one is stored at once. This matters most if the
	// table has become unsafe.
	if old := c.Pool.Verdict; old != nil {
		age := v.At.Sub(old.At)
		if old.Safe == v.Safe && old.Region == v.Region && old.Table == v.Table && age >= 0 && age < vouchAge {
			return err
		}
	}
	res, failed := p.writePool(ctx, protocol.Vouch{Pool: p.Name, Revision: c.Pool.Revision, Seen: c.Pool.Verdict, Verdict: *v})
	if failed == nil && res.Pool != nil {
		c.Pool = *res.Pool
	}
	return errors.Join(err, failed)
}

func (p *Pool) tend(ctx context.Context) (Changes, error) {
	item, err := p.itemInTime(ctx)
	c := Changes{Pool: item}
	if err != nil {
		return c, err
	}
	if _, last := item.GroupsOpen(); last+1 < protocol.UsableGroups(item) {
		g, err := p.glance(ctx, last)
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
			// The write is conditional on the number of open groups, since an agent may
			// have opened groups meanwhile.
			if c.Pool, err = p.change(ctx, protocol.OpenGroups{Pool: p.Name, From: item.OpenGroups, To: protocol.OpenNext(item)}); err != nil {
				return c, err
			}
		}
	}
	if _, wider := c.Pool.NextBits(); wider || c.Pool.Widening.State == protocol.WidenOpen {
		return p.widen(ctx, true)
	}
	return c, nil
}
