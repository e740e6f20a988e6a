// Package faults has the tests with real processes and real faults: kill -9, SIGSTOP, steps
// of the wall clock, answers that a proxy loses, a black hole, a server that is gone. The
// processes run the command worker, and every ID of every process is compared. The package
// is a module of its own, so that the main module does not get its dependencies.
//
// Leases are shorter here than in production, but their durations have the same proportions.
package faults
