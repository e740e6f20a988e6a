// Package leasepool administers a pool: it seeds, resizes, counts, reaps and force-releases
// node IDs. The command line, the Lambda functions and lease.Config.SeedIfMissing use it. An
// application that only holds a lease does not need it.
//
// No call in this package can lead to a duplicate ID: reserved milliseconds stay reserved,
// and every change is a conditional write that may be repeated.
package leasepool
