package main

const (
	naps      = "pkg/lease/naps.go"
	onDemand  = "pkg/lease/ondemand.go"
	inLambda  = "pkg/lease/leaselambda/invocation.go"
	lambdaOwn = "./pkg/lease/leaselambda"
)

// The mutants of agents that renew when they are used.
var onDemandMutants = []mutant{
	{"a sleep counts by the monotonic clock only", naps, `max(now.mono-sent.mono, now.wall.Sub(sent.wall))`, `now.mono - sent.mono`, leaseOwn},
	{"a sleep counts by the wall clock only", naps, `max(now.mono-sent.mono, now.wall.Sub(sent.wall))`, `now.wall.Sub(sent.wall)`, leaseOwn},
	{"an outside clock does not count", naps, `passed = max(passed, now.outside.Sub(sent.outside))`, `_ = passed`, leaseOwn},
	{"a claim is as old as its answer", naps, `reading{mono: mono, wall: t.Lease.ExpiresAt.Add(-a.cfg.TTL)}`, `reading{mono: mono, wall: a.clock.Wall()}`, leaseOwn},
	{"a renewal is as old as its answer", naps, `a.napping.sent, a.napping.patience = a.napping.sending, 0`, `a.attemptNow()
		a.napping.sent, a.napping.patience = a.napping.sending, 0`, leaseOwn},
	{"an attempt is not recorded before it is sent", naps, `n.unsettled = &unsettled{node: node, session: session, first: now}`, `_ = unsettled{}`, leaseOwn},
	{"another node ID before the claim in doubt is settled", claim, `if u := a.pending(); u != nil { // settled`, `if u := a.pending(); false { // settled`, leaseOwn},
	{"a session claims again although its release may arrive", claim, `if u.givenUp {`, `if false {`, leaseOwn},
	{"a claim in doubt counts from its last attempt", naps, `return u.first, true`, `return now, true`, leaseOwn},
	{"a claim in doubt is settled after its caller has gone", claim, `case a.napping == nil: // an`, `case true: // an`, leaseOwn},
	{"the session of another copy is used again", naps, `	a.timeline.Seal()
	a.settled()
`, `	a.timeline.Seal()
`, leaseOwn},
	{"a copy goes on with the lease of both", naps, `	if a.bound() {
		a.lose(`, `	if false {
		a.lose(`, leaseOwn},
	{"a timer while the process sleeps", renew, `if a.napping != nil { // no timer`, `if false { // no timer`, leaseOwn},
	{"each caller is a flight", onDemand, `case o.flight == nil:`, `case true:`, leaseOwn},
	{"one caller's cancellation ends the flight of all", onDemand, `last := f.riders == 0`, `last := true`, leaseOwn},
	{"a flight goes on for nobody", onDemand, `	f.cancel(context.Cause(wait))
`, ``, leaseOwn},
	{"a call waits until its deadline", onDemand, `at.Add(-min(time.Until(at)/10, time.Second/2))`, `at`, leaseOwn},
	{"every use renews", naps, `left+a.cfg.Guard >= a.cfg.TTL/3`, `left+a.cfg.Guard >= a.cfg.TTL`, leaseOwn},
	{"each use waits for a store that is away", naps, `a.beRested(min(left/2, a.cfg.TTL/30))`, `a.beRested(0)`, leaseOwn},
	{"Close releases before its requests have ended", "pkg/lease/ondemand_node.go", `			return fmt.Errorf("lease: pool %q: a request`, `			_ = fmt.Errorf("lease: pool %q: a request`, leaseOwn},
	{"Close leaves a claim in doubt", "pkg/lease/ondemand_node.go", `if u := a.pending(); u != nil && !copied {`, `if u := a.pending(); false {`, leaseOwn},
	{"what has run out is released", "pkg/lease/ondemand_node.go", `protocol.Latest(t.Expires(), t.Lease.ReservedUntil).After(a.clock.Wall())`, `!protocol.Latest(t.Expires(), t.Lease.ReservedUntil).IsZero()`, leaseOwn},
	{"a claim does not say that it is on demand", claim, `c.Task, c.Metadata, c.OnDemand = a.cfg.Task, a.metadataNow(), a.napping != nil`, `c.Task, c.Metadata, c.OnDemand = a.cfg.Task, a.metadataNow(), false`, leaseOwn},
	{"the next holder passes for one on demand", dynamo, `u.set += " REMOVE on_demand"`, `u.set += ""`, stores},
	{"an ID outside of an invocation", inLambda, `if lc, ok := lambdacontext.FromContext(ctx); !ok || lc.AwsRequestID == "" {`, `if lc, ok := lambdacontext.FromContext(ctx); false && (!ok || lc.AwsRequestID == "") {`, lambdaOwn},
	{"an ID after its invocation", inLambda, `if err := ctx.Err(); err != nil {`, `if err := ctx.Err(); false {`, lambdaOwn},
	{"an invocation's deadline is no evidence", inLambda, `a.node.Witness(at)`, `_ = at`, lambdaOwn},
}
