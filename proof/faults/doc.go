// Package faults contains the tests with real processes and real faults: kill -9, SIGSTOP,
// steps of the wall clock, answers that a proxy loses, a black hole, a server that is gone.
// The processes run the command worker, and the tests compare the IDs of all processes. The
// package is a module of its own, so that its dependencies are not dependencies of the main
// module.
//
// Leases are shorter here than in production, but the proportions between their durations
// are the same.
package faults
