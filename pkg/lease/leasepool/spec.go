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
	// Size is the number of node IDs in the pool, 1 to 65,536. The node IDs are 0 to Size-1.
	Size int
	// ExcludeBelow is the lowest node ID that the pool leases; lower node IDs are for
	// processes without a lease. It cannot be changed later.
	ExcludeBelow int
	// Floor is the last millisecond that must not be stamped with a new node ID. Set it
	// later than now if node IDs are assigned by hand until then, or if clocks were ahead
	// when a lost table was in use. The pool keeps the floor, so node IDs that are created
	// later begin after it too. Without a Floor, new node IDs begin now, and the pool keeps
	// no floor. A Floor in the past is treated as now.
	Floor time.Time
	// Expect is how many node IDs will be held at once, 0 to Size less ExcludeBelow. The
	// pool opens the groups for one and a half times as many, and a narrow pool is created
	// with the width for these groups, so that a fleet that starts at once does not have to
	// open groups one after the other. Seed and Resize can raise Expect; a lower value
	// changes nothing, since groups with leases stay open. The default, 0, means unknown:
	// the pool starts with one open group (or with all of its groups, if it has at most four
	// and is not narrow), and the number of open groups doubles as they fill.
	Expect int
	// Layout is the layout of all IDs of the pool. With the zero value, the first agent
	// that is about to make IDs chooses the layout. It can be changed only while no node
	// ID of the pool has ever been claimed: see [Pool.SetLayout].
	Layout snowflake.Layout
	// Narrow makes the width of node IDs depend on the groups of 256 in use: 8 bits plus
	// the bit length of the number of groups, such as 9 bits for up to 256 nodes and 11 for
	// 1,000. The other node bits of the layout extend the sequence; each of these bits
	// doubles the number of IDs that a node can make per millisecond. Every program that
	// makes IDs must use the current width; generators on an agent do so automatically. If
	// Expect is not set, and the fleet is larger than the open groups, its first start takes
	// about 20 s longer for each doubling beyond 512 node IDs. Narrow cannot be changed
	// later.
	Narrow bool
	// From is the size that the pool must still have when it is resized. If it has another one,
	// Resize returns an error and changes nothing. With the default, 0, Resize accepts any
	// size. Seed ignores From.
	From int

	kept time.Time // the floor that the pool keeps
}

// check returns the spec with its floor set, and an error that lists all problems of the
// spec.
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

// create returns the write that creates the pool's item, with the current time.
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
		w.ExistBelow = min(s.Size, 1<<w.NodeBits)
	}
	return w
}

// openAtFirst returns the number of groups that are open in a new pool. In a pool of up
// to 1,024 node IDs all groups are open, since these node IDs always fit the 10 node bits
// of the default layout.
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
	if s.otherLayout(p) {
		return fmt.Errorf("lease: pool %q exists and its IDs have the layout %s, not %s: leave the layout out, or name another pool",
			p.Pool, LayoutName(p.Layout.Snowflake()), LayoutName(s.Layout))
	}
	if s.Size == p.Size && s.ExcludeBelow == p.ExcludeBelow {
		return nil
	}
	return fmt.Errorf("lease: pool %q exists with %d node IDs and the lowest %d reserved, got %d and %d: resize it, or name another pool; how many are reserved cannot change",
		p.Pool, p.Size, p.ExcludeBelow, s.Size, s.ExcludeBelow)
}
