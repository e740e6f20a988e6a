package main

const (
	answer     = "internal/protocol/answer.go"
	outletFile = "pkg/lease/event.go"
	protocols  = "./internal/protocol"
)

// The mutants of an agent's handling of answers, copies, errors and hooks.
var agentMutants = []mutant{
	{"an answer without a checksum counts", answer, `case sum == "" && status < http.StatusMultipleChoices:`, `case false:`, protocols},
	{"an answer without a request counts", answer, `case h.Get("X-Amzn-Requestid") == "" && means:`, `case h.Get("X-Amzn-Requestid") == "" && !means:`, protocols},
	{"a wrong checksum is only logged", answer, `case sum != "" && sum != want:`, `case false:`, protocols},
	{"an empty answer to a write is read as a refusal", store, `case err == nil && !hasKey(out.Attributes, key), `, `case err == nil && len(out.Attributes) > 0 && !hasKey(out.Attributes, key), `, protocols},
	{"a table that is not in the answer is looked at", store, `if err == nil && (out.Table == nil || len(out.Table.KeySchema) == 0) {`, `if false {`, protocols},
	{"a renewal that kept something else is confirmed", store, `if err == nil && applied && !kept(w, l) {`, `if false {`, protocols},
	{"a copy that renews in step goes unnoticed", term, `cur.Renewal == t.asked && !t.sent(cur):`, `false:`, leaseOwn},
	{"who sees a copy keeps the lease from no one", renew, `			a.expose(ctx, t, res.Lease)
`, ``, copiesOwn},
	{"who sees a copy hands its milliseconds on", term, `protocol.Latest(cur.ReservedUntil, t.Lease.ReservedUntil)`, `t.Lease.NotBefore`, copiesOwn},
	{"who sees a copy forgets its own milliseconds", term, `protocol.Latest(cur.ReservedUntil, t.Lease.ReservedUntil)`, `cur.ReservedUntil`, copiesOwn},
	{"release of a copy's renewal", dynamo, `AND version = :version AND renewal <= :renewal",`, `AND version = :version AND :renewal = :renewal",`, stores},
	{"release of a renewal that may be a copy's", term, `if t.ours(cur) && t.sent(cur) {`, `if t.ours(cur) && cur.Renewal == t.asked {`, leaseOwn},
	{"a claim that a copy renewed is ours", term, `res.Lease.Holder == w.Session && res.Lease.Renewal == 0:`, `res.Lease.Holder == w.Session:`, copiesOwn},
	{"the queue of events has no bound", outletFile, `if len(o.queue) == outletRoom {`, `if false {`, leaseOwn},
	{"a hook that panics ends the process", outletFile, `if r := recover(); r != nil {`, `if r := any(nil); r != nil {`, leaseOwn},
	{"a hook that ends its goroutine hears nothing more", outletFile, `if !ended {`, `if !ended && false {`, leaseOwn},
	{"the log is called from the loop", outletFile, `	o.log.tell(e)
	o.hook.tell(e)
`, `	o.log.fn(e)
	o.hook.tell(e)
`, leaseOwn},
	{"a BeforeResume that hangs stops renewals", "pkg/lease/metadata.go", `	case <-limit.C:
`, ``, leaseOwn},
	{"a late bark ends the next term", watchdog, `case a.term != t || a.over != nil || a.suspended:`, `case a.over != nil || a.suspended:`, leaseOwn},
	{"a late loss ends the next term", renew, `if a.term != t || a.over != nil {`, `if a.over != nil {`, leaseOwn},
	{"the watchdog emits after it has unlocked", watchdog, `	a.tellNow(Event{Kind: EventSuspended, Lease: Lease(t.Lease)})
`, `	defer func() { go a.emitNow(Event{Kind: EventSuspended, Lease: Lease(t.Lease)}) }()
`, leaseOwn},
	{"an old page exhausts a pool", "pkg/lease/claim.go", `case s.Strong && s.Paced == 0:`, `case true:`, herdsOwn},
	{"a part of a group counts as all of it", "pkg/lease/claim.go", `		if part.Whole() {
			o.Merge(one)`, `		if true {
			o.Merge(one)`, herdsOwn},
	{"a part of a group reaches into the next", "internal/protocol/dynamodb.go", `if last = n; !part.Whole() && n >= end {`, `if last = n; !part.Whole() && n > end+GroupSize {`, protocolOwn},
	{"opening groups needs a read that is answered", "pkg/lease/pool.go", `case permanent(err) || errors.As(err, &corrupt) || ctx.Err() != nil:`, `case err != nil || errors.As(err, &corrupt):`, herdsOwn},
	{"a node ID that was claimed by a wrong clock is kept", agent, `a.term.Lease.NotBefore.Sub(wall) > a.latest`, `a.term.Lease.NotBefore.Sub(wall) > 1000*time.Hour+a.latest`, clocksOwn},
	{"an old page is believed twice", "internal/tenure/search.go", `known && now-at < oldest`, `known && now-at < 0`, leaseOwn},
	{"a suspension whose end was dropped goes on", "pkg/lease/leaseotel/metrics.go", `if e.Left > 0 {`, `if false {`, "./pkg/lease/leaseotel"},
	{"a suspension after one whose end was dropped sets the counter back", "pkg/lease/leaseotel/metrics.go", `		m.suspendedFor += m.suspension()
		m.suspendedSince = time.Now()`, `		m.suspendedSince = time.Now()`, "./pkg/lease/leaseotel"},
	{"a read of the pool counts as a claim", "pkg/lease/leaseotel/metrics.go", `lease.EventUnanswered && claiming:`, `lease.EventUnanswered && (claiming || true):`, "./pkg/lease/leaseotel"},
	{"a node ID that expired is not released before another claim", renew, `wait := a.giveUp(ctx, a.current(), n)`, `wait := time.Duration(1<<63 - 1)`, outagesOwn},
	{"an item that does not answer keeps its holder from others", closing, `since the item may rest for hours.
	ctx, cancel := context.WithTimeout(ctx, releaseBudget)`, `since the item may rest for hours.
	ctx, cancel := context.WithTimeout(ctx, max(rests, releaseBudget))`, outagesOwn},
	{"a release that failed is reported again and again", closing, `last, n > 0) != nil`, `last, false) != nil`, outagesOwn},
	{"a release without an answer is not sent again", closing, `return releaseBudget << min(n, 5)`, `return forever`, outagesOwn},
	{"a loss during the start ends the agent", "pkg/lease/start.go", `	a.starting = true`, `	a.starting = false`, clocksOwn},
	{"a start in a full pool goes on after a loss", renew, `if starting && wait ==`, `if !on && wait ==`, clocksOwn},
	{"a start in a full pool reports a loss", renew, `a.end(fmt.Errorf("%w; the node ID before`, `a.end(fmt.Errorf("%v; the node ID before`, clocksOwn},
	{"a start waits forever after a loss", renew, `wait = min(wait, a.cfg.Wait)`, `wait = max(wait, a.cfg.Wait)`, clocksOwn},
	{"a loss after the start does not end the agent", "pkg/lease/start.go", `		a.starting = false
	}
	return !a.starting`, `		return true
	}
	return false`, clocksOwn},
	{"reacquiring gives up on a 403", renew, `if fatal(err) {`, `if permanent(err) {`, outagesOwn},
	{"a start does not wait for errors to pass", start, `if err == nil || left <= 0 || !protocol.Passing(err) {`, `if true {`, leaseOwn},
	{"a start waits for what cannot pass", start, `if err == nil || left <= 0 || !protocol.Passing(err) {`, `if err == nil || left <= 0 {`, leaseOwn},
	{"long leases are a clock behind", claim, `if p.ServerTime.Sub(at) > c.timings().MaxSkew() {`, `if o.Next.After(at.Add(c.Reserve + c.ClaimGuard)) {`, leaseOwn},
	{"the store's clock does not count", claim, `if p.ServerTime.Sub(at) > c.timings().MaxSkew() {`, `if false {`, leaseOwn},
	{"a pool without node IDs is divided by", "internal/tenure/search.go", `if high <= low {`, `if false {`, leaseOwn},
	{"a long Wait overflows", start, `limit := max(cfg.Wait, cfg.Wait+startLimit)`, `limit := cfg.Wait + startLimit`, leaseOwn},
	{"who waits does not leave holders time after an outage", claim, `a.outage.Patience(now)`, `0*now`, outagesOwn},
	{"who begins in an outage leaves them none", "internal/tenure/outage.go", `	if !o.heard {
		return everyLease
	}
`, ``, leaseOwn},
	{"an outage begins anew with each unanswered request", "internal/tenure/outage.go", `case !answered && !o.down:`, `case !answered:`, leaseOwn},
	{"on a bad line expired leases are left alone forever", "internal/tenure/outage.go", ` && now >= o.until {`, ` {`, "./internal/tenure"},
	{"suspended holders ask as often as they can", renew, `	least, most := suspendedPause(`, `	least, most := 100*time.Millisecond, time.Second
	_, _ = suspendedPause(`, outagesOwn},
	{"a suspended holder takes longer than a twentieth", renew, `left/20), time.Second)`, `left/20), 2*time.Second)`, outagesOwn},
	{"a claim after a loss has the old metadata", claim, `	a.announce(ctx)
	a.mu.Lock()
	a.attemptNow()`, `	a.mu.Lock()
	a.attemptNow()`, leaseOwn},
	{"a suspended fleet asks in step", renew, `	if a.sentHeld || n == 0 {`, `	if false {`, outagesOwn},
	{"stamps run ahead as far as is reserved", renew, `	a.timeline.SetCeiling(c)
`, `	a.timeline.SetCeiling(snowflake.Ceiling{})
`, clocksOwn},
	{"a claim bounds no stamps", term, `At: w0.Add(t.ttl + t.claimGuard)`, `At: w0.Add(1e16)`, leaseOwn},
	{"ready though no ID can be made", "pkg/lease/health.go", `noIDs := a.timeline.Check()`, `noIDs := err`, leaseOwn},
	{"ready for the lease though it is suspended", "pkg/lease/health.go", `r.URL.Query().Get("need") != "lease"`, `r.URL.Query().Get("need") != "leases"`, leaseOwn},
	{"a failed start leaves connections", start, `		a.hangUp()
`, ``, leaseOwn},
	{"a guard that flaps with the jitter", "internal/tenure/timings.go", `t.TTL - t.RenewEvery - t.RenewEvery/5`, `t.TTL - t.RenewEvery - 1`, leaseOwn},
	{"a name that was found out counts as metadata", "pkg/lease/metadata.go", `c := Config{Task: a.givenTask,`, `c := Config{Task: a.cfg.Task,`, leaseOwn},
	{"an agent on a restored machine goes on", renew, `		if a.timeline.Copied() {
			a.lose(`, `		if false {
			a.lose(`, copiesOwn},
	{"a restored machine relies on its lease", agent, `case a.timeline.Copied():`, `case false:`, copiesOwn},
	{"a restored machine releases the original's lease", closing, `if copied {`, `if copied && false {`, copiesOwn},
	{"slow credentials are no credentials", "internal/protocol/awserr.go", `case slowCredentials(err):`, `case false:`, protocols},
	{"a lease that expired in a suspended machine goes on", renew, `	if a.cfg.OnExpiry == Stop && !t.Held(a.clock.Monotonic()) {
		a.expireNow(t)
		return
	}
`, ``, outagesOwn},
	{"a loss to another history is not ErrLost", "pkg/lease/pool.go", `contradicts the history of pool %q: %w", ErrLost,`, `contradicts the history of pool %q: %w", ErrItemFormat,`, outagesOwn},
	{"a pool that becomes smaller ends who claims in it", term, `Nodes: max(p.Size, t.Lease.NodeID+1)`, `Nodes: p.Size`, leaseOwn},
	{"a start fails if another agent seeds with another size", "pkg/lease/start.go", `err != nil && wrong != nil {`, `wrong != nil {`, leaseOwn},
	{"a holder keeps a node ID with a forged mark", renew, `if a.cfg.OnLost == Reacquire && a.isOver(t) {`, `if false {`, outagesOwn},
}
