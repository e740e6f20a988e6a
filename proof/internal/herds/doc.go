// Package herds tests how many agents find node IDs at the same time without many requests. It is
// about the hint cards that agents read when they start, the search of groups, the opening of
// groups, and agents that wait in a full pool.
package herds
