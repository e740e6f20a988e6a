package discovery

import (
	"context"
	"strconv"

	"github.com/nodelease/nodelease/internal/protocol"
)

// listsPlace contains no entries, but one list per node ID: the list of the holder's
// entries. Its own partition contains the lists of the first listsSpan node IDs, and a
// pointer to each further partition in use, so that the readers of a small pool query
// only one partition.
const listsPlace place = "registered"

// listsSpan is the number of node IDs whose lists are in one partition. It is limited
// because a starting fleet writes twice for each node ID, and one partition takes 1,000
// writes per second.
const listsSpan = 4096

// mostLists is the number of partitions for the lists of the largest pool.
const mostLists = protocol.MaxPoolSize / listsSpan

// listsOf returns the partition that contains a node ID's list.
func listsOf(pool string, nodeID int) string {
	if part := nodeID / listsSpan; part > 0 {
		return listsPlace.in(pool) + "#" + strconv.Itoa(part)
	}
	return listsPlace.in(pool)
}

// pointer returns the record that marks the partition part as in use. It is stored in the
// first partition of the lists, has no holder, and is never removed.
func pointer(part int) record { return record{NodeID: sharedNode - part, Version: 1} }

// point writes the pointer to the partition of a node ID's list, unless the pointer
// already exists. Without it, readers would not find the list.
func point(ctx context.Context, s Store, pool string, nodeID int) error {
	part := nodeID / listsSpan
	if part == 0 {
		return nil
	}
	first := listsOf(pool, 0)
	// Invariant (liveness): a pointer that was broken by hand does not prevent anyone from writing
	// a list. Readers need only its key.
	if now, err := s.Get(ctx, first, pointer(part).NodeID); err != nil || now.Version > 0 || now.Corrupt != nil {
		return err
	}
	return put(ctx, s, first, pointer(part))
}

// queryAll reads the records of a place. For listsPlace, it reads all partitions.
func queryAll(ctx context.Context, s Store, pool string, p place) ([]record, error) {
	first, err := s.Query(ctx, p.in(pool))
	if err != nil || p != listsPlace {
		return first, err
	}
	var all []record
	for _, r := range first {
		part := sharedNode - r.NodeID
		if part < 1 || part >= mostLists {
			if r.NodeID < listsSpan {
				all = append(all, r)
			}
			continue
		}
		more, err := s.Query(ctx, listsOf(pool, part*listsSpan))
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			if r.NodeID/listsSpan == part { // no other list is ever written there
				all = append(all, r)
			}
		}
	}
	return all, nil
}
