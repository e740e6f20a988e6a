// Package leaselambda leases node IDs for AWS Lambda functions, and generates IDs in them.
//
//	func main() {
//		lambda.Start(leaselambda.Wrap(handler, lease.Config{})) // pool.AttachFunction sets the table and the pool
//	}
//
//	func handler(ctx context.Context, e Event) error {
//		id, err := leaselambda.Generator(ctx).Next()
//
// Lambda freezes the environment of a function between its invocations, and ends it
// without notice. So the package sends no requests on a schedule:
//
//   - The first ID of an environment claims a node ID.
//   - When less than a third of the lease is left, the next ID first renews the lease.
//   - Other IDs send no request.
//   - The lease of an idle environment is not renewed, so its node ID becomes free by
//     itself, after Config.TTL (five minutes by default).
//
// Outside an invocation, the package claims, renews and stamps nothing. It recognizes an
// invocation by a context that has a request ID and has not ended. Lambda takes a snapshot
// (SnapStart) before the first invocation, so a snapshot never holds a lease.
//
// The call that requests an ID returns any error before the invocation's deadline. Errors
// name the remedy. No error is final: the next invocation tries again.
//
// Outside Lambda, processes that sleep between uses or live only for seconds should use
// [lease.NewOnDemand] directly.
package leaselambda
