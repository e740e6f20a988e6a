package leasepool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Spec says which numbers a pool has.
type Spec struct {
	// Size numbers, 0 to Size-1; 1 to 65,536.
	Size int
	// ReservedLow numbers, the lowest, are left to what is not managed. It cannot
	// be changed later.
	ReservedLow int
	// Floor is the last millisecond that nobody may stamp with a number that is
	// new: later than now where the numbers were fixed by hand until then, or where
	// clocks were ahead when a lost table was in use. Defaults to now, as does any
	// earlier time.
	Floor time.Time
	// Narrow lets the width of node IDs follow the groups of 256 in use: 8 bits and
	// the length of their number, 9 for up to 256 nodes, 11 for 1,000. The other node
	// bits of the layout make IDs: a node makes twice as many in a millisecond for
	// each. Whoever makes IDs must know the width, as generators on an agent do. A
	// fleet that is larger than what is open waits some 20 s at its first start for
	// each doubling beyond 512. It cannot be changed later.
	Narrow bool
}

// Changes says what a seed, a resize or a raise did.
type Changes struct {
	Pool protocol.PoolItem `json:"pool"`
	// Seeded numbers were made by this run. Those of a request whose answer was
	// lost are not counted.
	Seeded   int `json:"seeded"`
	Retired  int `json:"retired"`  // taken out of use
	Restored int `json:"restored"` // taken back into use
	Raised   int `json:"raised"`
	Marked   int `json:"marked,omitempty"` // told of a new width
	// Finishing numbers are retired and still held.
	Finishing int     `json:"finishing"`
	Corrupt   Corrupt `json:"corrupt,omitempty"`
}

// farFuture is how far ahead a floor may lie. Nobody can use a number before its
// floor, and nothing lowers it again: what is later than this is a slip.
const farFuture = 366 * 24 * time.Hour

// floor checks a time below which nothing may be stamped, and cuts off what is
// earlier than now: that would protect nothing.
func floor(t time.Time) (time.Time, error) {
	now := time.Now()
	switch {
	case t.IsZero():
		return now, nil
	case t.Year() < 2000:
		return t, fmt.Errorf("floor %s is before 2000: milliseconds or RFC 3339 are meant", protocol.Stamp(t))
	case t.After(now.Add(farFuture)):
		return t, fmt.Errorf("floor %s is more than a year ahead: no number could be used before; use the time until which IDs were made", protocol.Stamp(t))
	}
	return protocol.Latest(t, now), nil
}

// check tells all that is wrong with the spec, and gives it with its floor.
func (s Spec) check(pool string) (Spec, error) {
	errs := []error{protocol.CheckPoolName(pool)}
	if s.Size < 1 || s.Size > protocol.MaxPoolSize {
		errs = append(errs, fmt.Errorf("pool size %d: use 1 to %d, the numbers of 16 bits", s.Size, protocol.MaxPoolSize))
	} else if s.ReservedLow < 0 || s.ReservedLow >= s.Size {
		errs = append(errs, fmt.Errorf("%d reserved numbers of %d: use 0 to %d", s.ReservedLow, s.Size, s.Size-1))
	}
	var err error
	s.Floor, err = floor(s.Floor)
	if err = errors.Join(append(errs, err)...); err != nil {
		return s, fmt.Errorf("lease: pool %q: %w", pool, err)
	}
	return s, nil
}

// Seed makes the pool and its numbers where they do not exist. The pool's own
// item comes last: as long as it is missing, agents are told ErrPoolNotSeeded,
// and any of them may seed too, all at once. A pool of another size is left as it
// is, with an error: see [Pool.Resize].
func (p *Pool) Seed(ctx context.Context, s Spec) (c Changes, err error) {
	if s, err = s.check(p.Name); err != nil {
		return c, err
	}
	c.Pool, err = p.itemInTime(ctx)
	fresh := errors.Is(err, protocol.ErrPoolNotSeeded)
	if fresh {
		c.Pool, _ = s.create(p.Name).Apply(nil)
		err = nil
	}
	if err == nil {
		err = s.fits(c.Pool)
	}
	if err == nil {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor)
	}
	if err != nil || !fresh {
		return c, err
	}
	create := s.create(p.Name)
	res, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) { return p.store.WritePool(ctx, create) })
	if err != nil {
		return c, err
	}
	if res.Pool != nil {
		c.Pool = *res.Pool
	}
	return c, s.fits(c.Pool)
}

// create makes the pool's item, as of now.
func (s Spec) create(pool string) protocol.CreatePool {
	w := protocol.CreatePool{Pool: pool, Size: s.Size, OpenGroups: openAtFirst(s.Size), ReservedLow: s.ReservedLow, At: time.Now()}
	if s.Narrow {
		w.OpenGroups = s.ReservedLow/protocol.GroupSize + 1
		w.NodeBits = protocol.BitsFor(w.OpenGroups)
		w.Numbers = min(s.Size, 1<<w.NodeBits)
	}
	return w
}

// fits tells whether a pool that exists is the one that is asked for.
func (s Spec) fits(p protocol.PoolItem) error {
	if s.Narrow != p.Narrow() {
		return fmt.Errorf("lease: pool %q exists, and whether its width follows its groups (Narrow is %v) stays so: name another pool", p.Pool, p.Narrow())
	}
	if s.Size == p.Size && s.ReservedLow == p.ReservedLow {
		return nil
	}
	return fmt.Errorf("lease: pool %q exists with %d numbers and the lowest %d reserved, asked for are %d and %d: resize it, or name another pool; what is reserved stays so",
		p.Pool, p.Size, p.ReservedLow, s.Size, s.ReservedLow)
}

// openAtFirst is how many groups a new pool opens. Pools of up to 1,024 numbers
// fit the default layout's 10 bits however they are spread, so all of theirs.
func openAtFirst(size int) int {
	if groups := (protocol.PoolItem{Size: size}).Groups(); groups <= 4 {
		return groups
	}
	return 1
}

// settle makes the numbers of so many groups as the pool's size says: below it
// they exist and are in use, above it those that exist are retired.
func (p *Pool) settle(ctx context.Context, c *Changes, groups int, floor time.Time) error {
	item := c.Pool
	return p.sweep(ctx, groups, &c.Corrupt, func(ctx context.Context, s *sweep, n int, g protocol.Group) error {
		for _, l := range g.Leases {
			retired := l.NodeID >= item.Size
			if l.Retired != retired {
				count := &c.Restored
				if retired {
					count = &c.Retired
				}
				if _, err := s.do(ctx, protocol.Retire{Key: protocol.Key{Pool: p.Name, NodeID: l.NodeID}, Retired: retired}, count); err != nil {
					return err
				}
			}
			if retired && l.Holder != "" {
				s.mu.Lock()
				c.Finishing++
				s.mu.Unlock()
			}
		}
		low, high := max(n*protocol.GroupSize, item.ReservedLow), min((n+1)*protocol.GroupSize, item.Limit())
		// A number of a wider width is nobody's before that begins.
		return s.seed(ctx, c, low, high, g, protocol.Seed{Floor: protocol.Latest(floor, item.Changed()), Layout: item.Widening.Try})
	})
}

// seed makes the numbers from low to high-1 that are not in g, their group, in
// random order. Who is refused, since someone else seeds too, looks again instead
// of paying for all that the other has done: so a fleet shares the work.
func (s *sweep) seed(ctx context.Context, c *Changes, low, high int, g protocol.Group, w protocol.Seed) (err error) {
	there := map[int]bool{}
	for {
		for _, l := range g.Leases {
			there[l.NodeID] = true
		}
		for _, corrupt := range g.Corrupt {
			there[corrupt.NodeID] = true
		}
		applied := true
		for _, i := range rand.Perm(max(high-low, 0)) {
			if node := low + i; !there[node] && applied {
				there[node] = true
				w.Key = protocol.Key{Pool: s.Name, NodeID: node}
				if applied, err = s.do(ctx, w, &c.Seeded); err != nil {
					return err
				}
			}
		}
		if applied {
			return nil
		}
		if g, err = s.group(ctx, low/protocol.GroupSize); err != nil {
			return err
		}
	}
}
