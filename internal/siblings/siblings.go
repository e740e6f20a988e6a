// Package siblings has functions that the packages below pkg offer to each other, but not to
// users. The package that a function belongs to sets the variable when it is initialized.
package siblings

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Functions of pkg/lease/leasepool.
var (
	// BindLayout makes sure that a pool has a layout, and that this layout is want. If want
	// is nil, any layout is accepted, and a pool without a layout gets [snowflake.Default].
	// An agent calls BindLayout after its claim and before it makes its first ID. If the
	// pool's layout and want differ, the error names both. BindLayout writes at most once,
	// and not at all if item has a layout.
	BindLayout func(ctx context.Context, s protocol.Store, item protocol.PoolItem, want *snowflake.Layout) (protocol.PoolItem, error)

	// CountOpen counts the held node IDs of a pool, and separately the node IDs that are
	// cooling or were left by a dead holder. It reads only the groups that can contain
	// leases.
	CountOpen func(ctx context.Context, s protocol.Store, item protocol.PoolItem, now time.Time) (held, cooling int, err error)

	// WidenUnlessOpen does what Pool.Widen does, but if it finds an open try, it leaves the
	// work to the process that began that try. So many processes may call it at once.
	WidenUnlessOpen func(ctx context.Context, s protocol.Store, pool string) error
)

// Functions of pkg/lease, for the members of a cluster. The agent is a *lease.Agent.
var (
	// BeforeResume sets a function that is called before a renewal that would resume a
	// suspended lease, and before each claim of another node ID after a loss (Reacquire), so
	// that the holder can update its metadata (SetMetadata) in the same write. The write waits
	// for the function for up to a second. While a call of the function is still running, later
	// writes neither wait for it nor call the function again. A nil fn removes the function.
	BeforeResume func(agent any, fn func())

	// Unrenewed returns the sum of Guard and the time since the last confirmed renewal was
	// sent.
	Unrenewed func(agent any) time.Duration
)
