// Package copies tests agents in copies of a running process, made by a fork, by a machine that is
// cloned or by one that is restored from a snapshot. Both processes believe that they hold the same
// lease. No ID may be made twice, and a process that notices that it is a copy leaves the lease of
// the original alone.
package copies
