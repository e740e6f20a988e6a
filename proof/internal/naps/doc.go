// Package naps simulates processes that sleep: environments of a Lambda function, each with
// an on-demand agent, on one pool and in virtual time. They come and go by the hundred, die
// without notice, and may be frozen at any request for seconds to hours, no matter whether
// their clocks show that. Requests are lost, late and repeated, the reaper runs, and
// operators free leases by force. No ID may be made twice. If clocks are right and each
// freeze shows in some clock, no two environments may believe that they hold the same node
// ID at the same time.
//
//	go test ./proof/internal/naps -environments 10000 -v
//
// A pause stops an environment where it touches the world: before it sends a request, before
// it receives the answer, and between two invocations. Its timers go off meanwhile, unlike in
// an environment that is really frozen.
package naps
