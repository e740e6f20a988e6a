package demo

import "github.com/nodelease/nodelease/pkg/snowflake"

// seen is the exact set of all IDs so far. IDs of one millisecond and node count
// up, so 64 neighbours share one word: about half a byte for each ID at the
// demo's rates, and one access to the map for up to 64 of them.
type seen map[uint64]uint64

// add puts the IDs into the set and returns how many were there already.
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
