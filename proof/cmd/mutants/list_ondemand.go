package main

const (
	naps      = "pkg/lease/naps.go"
	onDemand  = "pkg/lease/ondemand.go"
	flights   = "pkg/lease/flight.go"
	inLambda  = "pkg/lease/leaselambda/invocation.go"
	lambdaOwn = "./pkg/lease/leaselambda"
)

// The mutants of on-demand agents, which renew when they are used.
var onDemandMutants = []mutant{
	{"a sleep counts by the monotonic clock only", naps, `max(r.mono-seen.mono, r.wall.Sub(seen.wall))`, `r.mono - seen.mono`, napsOwn},
	{"a sleep counts by the wall clock only", naps, `max(r.mono-seen.mono, r.wall.Sub(seen.wall))`, `r.wall.Sub(seen.wall)`, napsOwn},
	{"an outside clock does not count", naps, `passed = max(passed, r.outside.Sub(seen.outside))`, `_ = passed`, napsOwn},
	{"a claim is as old as its answer", naps, `wall: t.Lease.ExpiresAt.Add(-a.cfg.TTL), outside`, `wall: a.clock.Wall(), outside`, napsOwn},
	{"a renewal is as old as its answer", naps, `a.sentAt(a.napping.sending)`, `a.attemptNow()
		a.sentAt(a.napping.sending)`, napsOwn},
	{"an attempt is not recorded before it is sent", naps, `n.unsettled = &unsettled{node: node, session: session, first: now, outside: a.outsideAt(reading{mono: now}).outside}`, `_ = unsettled{}`, napsOwn},
	{"another node ID before the claim in doubt is settled", claim, `if u := a.pending(); u != nil { // settled`, `if u := a.pending(); false { // settled`, napsOwn},
	{"a session claims again although its release may arrive", claim, `if u.givenUp || u.node`, `if u.node`, napsOwn},
	{"a claim in doubt counts from its last attempt", naps, `return u.first, true`, `return now, true`, napsOwn},
	{"a claim in doubt is settled after its caller has gone", claim, `case a.napping == nil: // an`, `case true: // an`, napsOwn},
	{"the session of another copy is used again", naps, `	a.timeline.Seal()
	a.settled()
`, `	a.timeline.Seal()
`, napsOwn},
	{"a copy goes on with the lease of both", naps, `	if a.bound() {
		a.lose(`, `	if false {
		a.lose(`, napsOwn},
	{"a timer while the process sleeps", watchdog, `if a.napping != nil { // no timer`, `if false { // no timer`, napsOwn},
	{"each caller is a flight", flights, `case o.flight == nil:`, `case true:`, napsOwn},
	{"one caller's cancellation ends the flight of all", flights, `last := f.riders == 0`, `last := true`, napsOwn},
	{"a flight goes on for nobody", flights, `	f.cancel(context.Cause(wait))
`, ``, napsOwn},
	{"a call waits until its deadline", flights, `at.Add(-min(time.Until(at)/10, time.Second/2))`, `at`, napsOwn},
	{"every use renews", naps, `left+a.cfg.Guard >= a.cfg.TTL/3`, `left+a.cfg.Guard >= a.cfg.TTL`, napsOwn},
	{"each use waits for a store that is away", naps, `left - min(left/2, a.cfg.TTL/30)`, `left`, napsOwn},
	{"Close releases before its requests have ended", onDemand, `			return fmt.Errorf("lease: pool %q: a request`, `			_ = fmt.Errorf("lease: pool %q: a request`, napsOwn},
	{"Close leaves a claim in doubt", onDemand, `if u := a.pending(); u != nil && !copied {`, `if u := a.pending(); false {`, napsOwn},
	{"what has run out is released", onDemand, `protocol.Latest(t.Expires(), t.Lease.ReservedUntil).After(a.clock.Wall())`, `!protocol.Latest(t.Expires(), t.Lease.ReservedUntil).IsZero()`, napsOwn},
	{"a claim does not say that it is on demand", claim, `c.OnDemand = a.napping != nil`, `c.OnDemand = false`, napsOwn},
	{"the next holder passes for one on demand", dynamo, `gone = append(gone, "on_demand")`, `gone = gone[:0]`, stores},
	{"the next holder has the metadata of the one before", dynamo, `gone = append(gone, "metadata")`, `_ = gone`, stores},
	{"an ID outside of an invocation", inLambda, `if lc, ok := lambdacontext.FromContext(ctx); !ok || lc.AwsRequestID == "" {`, `if lc, ok := lambdacontext.FromContext(ctx); false && (!ok || lc.AwsRequestID == "") {`, lambdaOwn},
	{"an ID after its invocation", inLambda, `if err := ctx.Err(); err != nil {`, `if err := ctx.Err(); false {`, lambdaOwn},
	{"an invocation's deadline is no evidence", inLambda, `a.node.Witness(at)`, `_ = at`, lambdaOwn},
	{"what each clock has shown is not added up", naps, `if since >= lookEvery || now.wall.Sub(n.seen.wall) <= -lookEvery {`, `if false {`, napsOwn},
	{"a clock that was set back hides what it shows next", naps, `since >= lookEvery || now.wall.Sub(n.seen.wall) <= -lookEvery`, `since >= lookEvery`, napsOwn},
	{"a claim in doubt is as old as the last deadline", naps, `if u := a.pending(); u != nil && mono`, `if u := a.pending(); false && mono`, napsOwn},
	{"a renewal without an answer fails those who wait", flights, `case good && ctx.Err() == nil:`, `case false && good:`, napsOwn},
	{"renewals while the last holder's span goes on", flights, `case !a.isFresh(a.left()) &&`, `case !a.good() &&`, napsOwn},
	{"a call waits for a clock that was set back", naps, `if left > a.latestStart() {`, `if false {`, clocksOwn},
	{"a wrong TTL is reported by options that nobody has set", onDemand, `min(max(cfg.TTL.Truncate(time.Millisecond), time.Millisecond), protocol.MaxTTL)`, `cfg.TTL`, leaseOwn},
	{"a generator is made until the deadline", onDemand, `context.WithCancelCause(wait)`, `context.WithCancelCause(ctx)`, napsOwn},
	{"a call waits for a request that was given up", onDemand, `		case <-wait.Done():
			return o.late(context.Cause(wait))
		}
		if f,`, `		case <-ctx.Done():
			return o.late(context.Cause(ctx))
		}
		if f,`, napsOwn},
	{"each use asks beside an open widening", flights, `				a.beRested()
`, ``, napsOwn},
	{"many IDs wait for a clock that was set back", inLambda, `if dst[0], err = g.Next(); err != nil {`, `if dst[0], err = g.a.ids.Load().NextContext(g.ctx); err != nil {`, lambdaOwn},
	{"a holder that sleeps is late", "cmd/nodelease/internal/ui/state.go", `n.Held && !n.OnDemand && n.TTL`, `n.Held && n.TTL`, "./cmd/nodelease/internal/ui"},
	{"an ID that met a freeze is not tried again", inLambda, `	if errors.Is(err, snowflake.ErrFenced) {
		return g.next()
	}
`, ``, lambdaOwn},
	{"connections that a freeze has killed are used again", flights, `	a.hangUp()       // connections`, `	// connections`, napsOwn},
	{"dead connections of the user's client are used", flights, `hangUp = idleOf(d)`, `_ = idleOf(d)`, napsOwn},
	{"a handler of bytes has no agent", "pkg/lease/leaselambda/leaselambda.go", `return within{h, a}`, `return h`, lambdaOwn},
	{"a closed on-demand agent goes on asking for the layout", onDemand, `	if o.giveUp != nil {`, `	if false {`, napsOwn},
	{"an on-demand agent reads the layout before it claims", onDemand, `a == nil || !a.bound(): //`, `a == nil: //`, napsOwn},
	{"a claim in doubt beyond a resize is kept", claim, `if u.givenUp || u.node >= a.pool.Limit() {`, `if u.givenUp {`, napsOwn},
	{"a clock within the tolerance ends a call", naps, `if left > a.latestStart() {`, `if left > a.cfg.ClaimGuard {`, napsOwn},
	{"a broken item is kept after a sleep that only the wall clock shows", naps, `return !t.Held(a.clock.Monotonic()) || a.napping != nil && a.leftNow() <= 0`, `return !t.Held(a.clock.Monotonic())`, outagesOwn},
}
