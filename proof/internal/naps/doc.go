// Package naps is a world of processes that sleep: environments of a Lambda function
// with an on-demand agent each, on one pool, in virtual time. They come and go by the
// hundred, are frozen at any request for seconds to hours, by clocks that show it or do
// not, and die without notice. Requests are lost, late and repeated, the reaper runs,
// and operators free leases by force. No ID may be made twice; and where clocks are
// right and some clock shows each freeze, no two may believe in one node ID.
//
//	go test ./proof/internal/naps -environments 10000 -v
//
// A pause stops an environment where it touches the world: before a request is sent,
// before its answer is heard, and between two invocations. Its timers go off meanwhile,
// unlike in an environment that is really frozen.
package naps
