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

// CreatePool creates the pool's item.
type CreatePool struct {
	Pool                           string
	Size, OpenGroups, ExcludeBelow int
	At, Floor                      time.Time
	Layout                         *IDLayout // nil: the first agent that is about to stamp binds one
	// NodeBits is the first width of a narrow pool, or 0 if the pool is not narrow.
	// ExistBelow is at most the number of node IDs that fit into this width.
	NodeBits, ExistBelow int
	Expect               int // holders; 0: unknown
}

// PoolName implements [PoolWrite].
func (w CreatePool) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w CreatePool) Apply(old *PoolItem) (PoolItem, bool) {
	if old != nil {
		return PoolItem{}, false
	}
	p := PoolItem{Pool: w.Pool, Format: ItemFormat, Size: w.Size, OpenGroups: w.OpenGroups, ExcludeBelow: w.ExcludeBelow, CreatedAt: Trunc(w.At), Revision: 1, Floor: floorOf(max(w.Floor.UnixMilli(), 0)), Layout: w.Layout, Expect: w.Expect}
	if w.NodeBits > 0 {
		ever := time.UnixMilli(0).UTC()
		p.Eras = snowflake.Eras{{From: ever, NodeBits: w.NodeBits}}
		p.Widening = Widening{From: ever, Bits: w.NodeBits, State: WidenDone}
		p.ExistBelow = w.ExistBelow
	}
	return p, true
}

// OpenGroups changes the number of groups that claimants try first.
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
	p.Revision++
	return p, true
}

// ExpectHolders sets the number of holders for which the pool should have room, and
// opens the groups for them.
type ExpectHolders struct {
	Pool               string
	Revision           int64 // as seen
	Expect, OpenGroups int
}

// PoolName implements [PoolWrite].
func (w ExpectHolders) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w ExpectHolders) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Revision != w.Revision {
		return PoolItem{}, false
	}
	p := *old
	p.Expect, p.OpenGroups = w.Expect, w.OpenGroups
	p.Revision++
	return p, true
}

// ResizePool changes the number of node IDs of the pool. The node IDs are then seeded or
// retired; see leasepool.Pool.Resize.
type ResizePool struct {
	Pool     string
	Revision int64 // as seen
	To       int
	At       time.Time
}

// PoolName implements [PoolWrite].
func (w ResizePool) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w ResizePool) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Revision != w.Revision {
		return PoolItem{}, false
	}
	p := *old
	p.Size, p.ResizedAt = w.To, Trunc(w.At)
	p.Revision++
	return p, true
}

// RaiseFloor raises the floor of the pool. Node IDs that are created later begin
// after that floor.
type RaiseFloor struct {
	Pool string
	To   time.Time
}

// PoolName implements [PoolWrite].
func (w RaiseFloor) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w RaiseFloor) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || !old.Floor.Before(Trunc(w.To)) {
		return PoolItem{}, false
	}
	p := *old
	p.Floor = Trunc(w.To)
	p.Revision++
	return p, true
}

// BindLayout sets the layout of all IDs of a pool that has no layout.
type BindLayout struct {
	Pool   string
	Layout IDLayout
}

// PoolName implements [PoolWrite].
func (w BindLayout) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w BindLayout) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Layout != nil || old.LayoutBefore != nil || old.Size > w.Layout.nodes() {
		return PoolItem{}, false
	}
	p := *old
	p.Layout = &w.Layout
	p.Revision++
	return p, true
}

// SuspendLayout keeps agents from beginning to make IDs until [ReplaceLayout].
type SuspendLayout struct {
	Pool     string
	Revision int64 // as seen
}

// PoolName implements [PoolWrite].
func (w SuspendLayout) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w SuspendLayout) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Revision != w.Revision || old.Layout == nil || old.LayoutFinal {
		return PoolItem{}, false
	}
	p := *old
	p.Layout, p.LayoutBefore = nil, old.Layout
	p.Revision++
	return p, true
}

// ReplaceLayout ends the suspension of [SuspendLayout], with another layout or with the
// previous one.
type ReplaceLayout struct {
	Pool     string
	Revision int64 // as seen
	Layout   IDLayout
}

// PoolName implements [PoolWrite].
func (w ReplaceLayout) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w ReplaceLayout) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Revision != w.Revision || old.LayoutBefore == nil || old.Size > w.Layout.nodes() {
		return PoolItem{}, false
	}
	p := *old
	p.Layout, p.LayoutBefore = &w.Layout, nil
	p.Revision++
	return p, true
}

// FinalizeLayout marks the layout of a pool as final: operators can no longer correct it.
// Its writer has seen, after it read the pool's item, that a node ID was claimed.
type FinalizeLayout struct {
	Pool     string
	Revision int64 // as seen
}

// PoolName implements [PoolWrite].
func (w FinalizeLayout) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w FinalizeLayout) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || old.Revision != w.Revision || old.Layout == nil || old.LayoutFinal {
		return PoolItem{}, false
	}
	p := *old
	p.LayoutFinal = true
	p.Revision++
	return p, true
}
