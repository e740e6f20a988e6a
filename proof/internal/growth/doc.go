// Package growth models a fleet whose leases grow. It runs the processes and the table in
// one goroutine and in virtual time, so that months pass in seconds. Its tests compare
// docs/cost.md with the costs of such a fleet, and docs/operations.md with the time for
// which the node IDs of crashed processes stay taken.
//
// All decisions are made by the product's own code: tenure's Guess, Search, Outlook, Term,
// Timings and Room, and the writes' Apply. Only the following is modelled: the order of an
// agent's requests, which a test compares with that of real agents; requests, which take
// no time and are never lost; clocks, which are right; and the schedule of starts, crashes
// and stops.
//
//	go test ./proof/internal/growth -v -args -whole
//
// The tests in grow_test.go and edges_test.go run real agents instead. Their leases grow, stay
// short or become short again.
package growth
