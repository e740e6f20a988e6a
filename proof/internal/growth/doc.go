// Package growth is a fleet whose leases grow, on paper: its processes and the table, in
// one goroutine and in virtual time, so that months pass in seconds. Its tests hold
// docs/cost.md to what such a fleet costs, and docs/operations.md to how long the node
// IDs of crashed processes rest.
//
// The product's own code decides: tenure's Guess, Search, Outlook, Term, Timings and Room,
// and the writes' Apply. The paper has of its own the order of an agent's requests, which
// a test compares with real agents; requests that take no time and are never lost; clocks
// that are right; and who starts, crashes and stops when.
//
//	go test ./proof/internal/growth -v -args -whole
package growth
