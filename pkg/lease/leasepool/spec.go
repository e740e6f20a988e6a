package leasepool

import (
	"errors"
	"fmt"
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

// openAtFirst is how many groups a new pool opens. Pools of up to 1,024 numbers
// fit the default layout's 10 bits however they are spread, so all of theirs.
func openAtFirst(size int) int {
	if groups := (protocol.PoolItem{Size: size}).Groups(); groups <= 4 {
		return groups
	}
	return 1
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
