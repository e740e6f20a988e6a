package demo

import "github.com/nodelease/nodelease/pkg/snowflake"

// seen is the exact set of all IDs so far. The IDs of one millisecond and node ID are
// consecutive, so up to 64 of them share one word and are added with one access to the
// map. At the demo's rates an ID takes about half a byte.
type seen map[uint64]uint64

// add adds the IDs to the set and returns how many were already in it.
func (s seen) add(ids []snowflake.ID) (duplicates int) {
	for i := 0; i < len(ids); {
		key := uint64(ids[i]) >> 6 //nolint:gosec // an ID is not negative
		word := s[key]
		for ; i < len(ids) && uint64(ids[i])>>6 == key; i++ { //nolint:gosec // an ID is not negative
			bit := uint64(1) << (uint64(ids[i]) & 63) //nolint:gosec // an ID is not negative
			if word&bit != 0 {
				duplicates++
			}
			word |= bit
		}
		s[key] = word
	}
	return duplicates
}
