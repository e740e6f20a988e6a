package main

import (
	"context"
	"slices"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// checkIndex checks that the table's index names the pool, and with --repair adds it.
// Nothing but nodelease pools, shell completion and the bootstrap function, which finds renamed
// pools there, depends on the index.
func (d *doctor) checkIndex(ctx context.Context) {
	names, err := leasepool.Names(ctx, d.store)
	switch {
	case err != nil:
		d.add("index", skipped, "the table's index of pools cannot be read: "+brief(err), "")
	case slices.Contains(names, d.pool):
		d.add("index", fine, d.pool+" is in the table's index of pools", "")
	case !d.repair:
		d.add("index", warning, d.pool+" is not in the table's index of pools, so nodelease pools does not list it", d.again("doctor --repair"))
	default:
		if err := leasepool.Open(d.store, d.pool).Record(ctx); err != nil {
			d.add("index", warning, d.pool+" could not be added to the table's index of pools: "+brief(err), d.again("doctor --repair"))
			return
		}
		d.add("index", fine, d.pool+" was added to the table's index of pools", "")
	}
}
