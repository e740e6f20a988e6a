// Package leasepool is for who looks after a pool: seed it, make it larger or
// smaller, count it, reap what has expired, free a number by force. The command
// line, the functions and lease.Config.SeedIfMissing use it; an application that
// only holds a lease does not need it.
//
// Nothing here can make an ID twice: what is reserved stays reserved, and every
// change is a conditional write that may be repeated.
package leasepool
