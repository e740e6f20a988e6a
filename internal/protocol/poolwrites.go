package protocol

import (
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// PoolWrite is one conditional write of a pool's item; see [Write].
type PoolWrite interface {
	PoolName() string
	Apply(old *PoolItem) (PoolItem, bool)
}

// CreatePool makes the pool's item.
type CreatePool struct {
	Pool                          string
	Size, OpenGroups, ReservedLow int
	At                            time.Time
	// NodeBits is the first width of a narrow pool; else 0. Numbers are those that
	// it can hold, or fewer.
	NodeBits, Numbers int
}

// PoolName implements [PoolWrite].
func (w CreatePool) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w CreatePool) Apply(old *PoolItem) (PoolItem, bool) {
	if old != nil {
		return PoolItem{}, false
	}
	p := PoolItem{Pool: w.Pool, Format: ItemFormat, Size: w.Size, OpenGroups: w.OpenGroups, ReservedLow: w.ReservedLow, CreatedAt: Trunc(w.At)}
	if w.NodeBits > 0 {
		ever := time.UnixMilli(0).UTC()
		p.Eras = snowflake.Eras{{From: ever, NodeBits: w.NodeBits}}
		p.Widening = Widening{From: ever, Bits: w.NodeBits, State: WidenDone}
		p.Numbers = w.Numbers
	}
	return p, true
}

// OpenGroups lets first guesses fall into more groups, or fewer.
type OpenGroups struct {
	Pool     string
	From, To int
}

// PoolName implements [PoolWrite].
func (w OpenGroups) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w OpenGroups) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.OpenGroups != w.From {
		return PoolItem{}, false
	}
	p := *old
	p.OpenGroups = w.To
	return p, true
}

// ResizePool changes how many numbers the pool has. Seeding or retiring them
// follows; see leasepool.Pool.Resize.
type ResizePool struct {
	Pool     string
	From, To int
	At       time.Time
}

// PoolName implements [PoolWrite].
func (w ResizePool) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w ResizePool) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Size != w.From {
		return PoolItem{}, false
	}
	p := *old
	p.Size, p.ResizedAt = w.To, Trunc(w.At)
	return p, true
}
