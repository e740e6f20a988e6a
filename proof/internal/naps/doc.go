// Package naps simulates processes that sleep: environments of a Lambda function, each with
// an on-demand agent, on one pool and in virtual time. Hundreds of environments come and go.
// They die without notice, and may be frozen at any request for seconds to hours, whether
// their clocks show the freeze or not. Requests are lost, late and repeated, the reaper runs,
// and operators free leases by force. No ID may be made twice. If clocks are right and some
// clock shows each freeze, no two environments may believe that they hold the same node ID at
// the same time.
//
//	go test ./proof/internal/naps -environments 10000 -v
//
// A pause stops an environment before it sends a request, before it receives the answer, or
// between two invocations. Unlike in an environment that is really frozen, its timers go off
// meanwhile.
//
// The other tests have one or a few on-demand agents and one fault each: a freeze that only some
// clocks show, an answer that is lost, a connection that dies during a freeze, a caller that gives
// up.
package naps
