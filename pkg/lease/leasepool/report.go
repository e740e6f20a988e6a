package leasepool

import (
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Changes reports the results of a seed, a resize or a raise.
type Changes struct {
	Pool protocol.PoolItem `json:"pool"`
	// Seeded is how many node IDs this run created. A node ID is not counted if the
	// answer to the request that created it was lost.
	Seeded   int `json:"seeded"`
	Retired  int `json:"retired"`  // node IDs that this run retired
	Restored int `json:"restored"` // retired node IDs that this run brought back into use
	Raised   int `json:"raised"`
	Marked   int `json:"marked,omitempty"` // marked with a new width
	// Finishing is how many node IDs are retired and still held.
	Finishing int     `json:"finishing"`
	Corrupt   Corrupt `json:"corrupt,omitempty"`

	existed map[int]bool // the node IDs that existed before this run stored a floor; nil if it stored none
}

// Corrupt contains the defects of corrupt items, by node ID.
type Corrupt map[int]string

// note records err if it reports a corrupt item, and reports whether it does.
func (c *Corrupt) note(err error) bool {
	var corrupt *protocol.CorruptError
	if !errors.As(err, &corrupt) {
		return false
	}
	if *c == nil {
		*c = Corrupt{}
	}
	(*c)[corrupt.NodeID] = corrupt.Err.Error()
	return true
}
