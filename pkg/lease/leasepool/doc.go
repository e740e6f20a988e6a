// Package leasepool administers a pool: it seeds, resizes, counts, reaps and force-releases
// node IDs. The command line, the Lambda functions and lease.Config.SeedIfMissing use it. An
// application that only holds a lease does not need it.
//
// No call on an existing pool can lead to a duplicate ID: reserved milliseconds stay
// reserved, and every change is a conditional write that may be repeated. Three things are
// up to the caller: a new pool that continues the IDs of an earlier pool or table needs a
// later Spec.Floor, a restored table needs Pool.Raise before any process starts, and IDs of
// two pools may be equal.
package leasepool
