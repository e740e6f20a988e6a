// Package discoverytest provides an in-memory store, for tests of programs that use
// discovery.
package discoverytest

import (
	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

// NewMemory returns a store that keeps entries in memory. The leases may be in any store,
// such as one from leasetest.
func NewMemory(leases lease.Store) discovery.Store { return entries.NewMemory(leases) }
