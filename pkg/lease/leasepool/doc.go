// Package leasepool administers a pool: seed, resize, count, reap, force-release. The
// command line, the functions and lease.Config.SeedIfMissing use it; an application
// that only holds a lease does not need it.
//
// Nothing here can make an ID twice: reserved milliseconds stay reserved, and every
// change is a conditional write that may be repeated.
package leasepool
