// Package faults holds the tests with real processes and real faults: kill -9,
// SIGSTOP, steps of the wall clock, answers that a proxy loses, a black hole, a
// server that is gone. The processes are those of the command worker; every ID of
// every process is compared. It is a module of its own because of its rigs' dependencies.
//
// Leases are shortened here, with all their relations unchanged.
package faults
