// Package leaselambda leases node IDs for AWS Lambda functions, and makes IDs in them.
//
//	func main() {
//		lambda.Start(leaselambda.Wrap(handler, lease.Config{})) // pool.AttachFunction sets the table and the pool
//	}
//
//	func handler(ctx context.Context, e Event) error {
//		id, err := leaselambda.Generator(ctx).Next()
//
// The environment of a function is frozen between its invocations, and ends without
// notice. So nothing is asked for on a schedule: the first ID of an environment claims
// a node ID, and an ID for which less than a third of the lease is left renews it first.
// The others cost nothing. Nobody renews an idle environment, so its node ID becomes
// free by itself, after five minutes unless Config.TTL says otherwise.
//
// Nothing is claimed, renewed or stamped outside of an invocation: a context that has a
// request ID and has not ended. An invocation always comes after the restore of a
// snapshot (SnapStart), which therefore never holds a lease.
//
// Errors come from the call that asks for an ID, in time before the invocation's
// deadline, with the remedy. None is final: the next invocation tries again.
//
// Other processes that sleep, or live for seconds, use [lease.NewOnDemand] itself.
package leaselambda
