package leasepool

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Spec describes the node IDs of a pool.
type Spec struct {
	// Size is the number of node IDs, 0 to Size-1; 1 to 65,536.
	Size int
	// ExcludeBelow is the lowest node ID to lease; those below are left to unmanaged
	// processes. It cannot be changed later.
	ExcludeBelow int
	// Floor is the last millisecond that may not be stamped with a new node ID: later
	// than now if node IDs were assigned by hand until then, or if clocks were ahead when
	// a lost table was in use. The pool keeps it: node IDs that are created later begin
	// after it too. Defaults to now, as does any earlier time; in that case the pool
	// keeps none.
	Floor time.Time
	// Expect is how many node IDs will be held at once, 0 to Size less ExcludeBelow.
	// The groups of 256 for half as many again are opened, and a narrow pool is
	// created with the width for them, so that a fleet that starts at once need not
	// open them one after the other. It can be raised by Seed and Resize; a lower one changes
	// nothing, since groups with leases in them stay open. Defaults to 0, unknown: the
	// pool starts with one group (with all of up to four), and its open groups double as
	// they fill.
	Expect int
	// Layout is the layout of all IDs of the pool. The zero value leaves it to the
	// first agent that is about to make IDs. It can be changed only while no node ID
	// of the pool has been claimed: see [Pool.SetLayout].
	Layout snowflake.Layout
	// Narrow lets the width of node IDs follow the groups of 256 in use: 8 bits plus
	// the bit length of the number of groups, 9 for up to 256 nodes, 11 for 1,000.
	// The other node bits of the layout extend the sequence: each doubles the IDs
	// that a node can make per millisecond. Every program that makes IDs must know
	// the width, as generators on an agent do. A fleet larger than the open groups,
	// without Expect, waits some 20 s at its first start for each doubling beyond
	// 512. It cannot be changed later.
	Narrow bool

	kept time.Time // the floor that the pool keeps
}

// check returns all errors of the spec, and the spec with its floor.
func (s Spec) check(pool string) (Spec, error) {
	errs := []error{protocol.CheckPoolName(pool)}
	if s.Size < 1 || s.Size > protocol.MaxPoolSize {
		errs = append(errs, fmt.Errorf("pool size %d: use 1 to %d, the limit of 16 bits", s.Size, protocol.MaxPoolSize))
	} else if s.ExcludeBelow < 0 || s.ExcludeBelow >= s.Size {
		errs = append(errs, fmt.Errorf("%d reserved of %d node IDs: use 0 to %d", s.ExcludeBelow, s.Size, s.Size-1))
	} else if most := s.Size - s.ExcludeBelow; s.Expect < 0 || s.Expect > most {
		errs = append(errs, fmt.Errorf("%d holders expected of %d usable node IDs: use 0, which is unknown, to %d, or a larger size", s.Expect, most, most))
	}
	if s.Layout != (snowflake.Layout{}) {
		if err := s.Layout.Validate(); err != nil {
			errs = append(errs, err)
		} else if err := holds(protocol.LayoutOf(s.Layout), s.Size); err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	s.kept = s.Floor // only a requested floor is kept
	s.Floor, err = floor(s.Floor)
	if err = errors.Join(append(errs, err)...); err != nil {
		return s, fmt.Errorf("lease: pool %q: %w", pool, err)
	}
	return s, nil
}

// create returns the write of the pool's item, as of now.
func (s Spec) create(pool string) protocol.CreatePool {
	room := protocol.GroupsFor(protocol.PoolItem{Size: s.Size, ExcludeBelow: s.ExcludeBelow}, s.Expect)
	w := protocol.CreatePool{
		Pool: pool, Size: s.Size, OpenGroups: max(openAtFirst(s.Size), room), ExcludeBelow: s.ExcludeBelow, At: time.Now(), Floor: s.kept, Expect: s.Expect,
	}
	if s.Layout != (snowflake.Layout{}) {
		l := protocol.LayoutOf(s.Layout)
		w.Layout = &l
	}
	if s.Narrow {
		w.OpenGroups = max(s.ExcludeBelow/protocol.GroupSize+1, room)
		w.NodeBits = protocol.BitsFor(w.OpenGroups)
		w.Numbers = min(s.Size, 1<<w.NodeBits)
	}
	return w
}

// openAtFirst returns how many groups a new pool opens. Pools of up to 1,024 node IDs fit
// the default layout's 10 bits in any case, so all of their groups.
func openAtFirst(size int) int {
	if groups := (protocol.PoolItem{Size: size}).Groups(); groups <= 4 {
		return groups
	}
	return 1
}

// fits returns an error unless an existing pool matches the spec.
func (s Spec) fits(p protocol.PoolItem) error {
	if s.Narrow != p.Narrow() {
		return fmt.Errorf("lease: pool %q exists, and whether its width follows its groups (Narrow is %v) stays so: name another pool", p.Pool, p.Narrow())
	}
	if s.Layout != (snowflake.Layout{}) && p.Layout != nil && *p.Layout != protocol.LayoutOf(s.Layout) {
		return fmt.Errorf("lease: pool %q exists and its IDs have the layout %s, not %s: leave the layout out, or name another pool",
			p.Pool, LayoutName(p.Layout.Snowflake()), LayoutName(s.Layout))
	}
	if s.Size == p.Size && s.ExcludeBelow == p.ExcludeBelow {
		return nil
	}
	return fmt.Errorf("lease: pool %q exists with %d node IDs and the lowest %d reserved, got %d and %d: resize it, or name another pool; how many are reserved cannot change",
		p.Pool, p.Size, p.ExcludeBelow, s.Size, s.ExcludeBelow)
}
