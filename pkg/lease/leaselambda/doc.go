// Package leaselambda leases node IDs for AWS Lambda functions, and generates IDs in them.
//
//	func main() {
//		lambda.Start(leaselambda.Wrap(handler, lease.Config{})) // pool.AttachFunction sets the table and the pool
//	}
//
//	func handler(ctx context.Context, e Event) error {
//		id, err := leaselambda.Generator(ctx).Next()
//
// The environment of a function is frozen between its invocations, and ends without
// notice. So nothing is requested on a schedule: the first ID of an environment claims a
// node ID, and when less than a third of the lease is left, the next ID first renews the
// lease. Other IDs send no request. The lease of an idle environment is not renewed, so
// its node ID becomes free by itself, after five minutes or Config.TTL.
//
// Nothing is claimed, renewed or stamped outside an invocation, which is recognized by a
// context that has a request ID and has not ended. A snapshot (SnapStart) is taken before
// the first invocation, and therefore never holds a lease.
//
// The call that requests an ID returns errors, before the invocation's deadline. They name
// the remedy. No error is final: the next invocation tries again.
//
// Other processes that sleep, or live for seconds, use [lease.NewOnDemand] directly.
package leaselambda
