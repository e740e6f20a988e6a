package main

// The mutants of the code that keeps copies of one process apart.
var copyMutants = []mutant{
	{"a renewal goes over a copy's", writes, `!w.Follows(old.ReservedUntil) || old.WidenTry`, `old.WidenTry`, leaseOwn},
	{"a renewal goes over a copy's in the table", dynamo, `u.onlyIf += " AND (" + own + ")"`, `u.onlyIf += " AND (" + own + " OR attribute_exists(version))"`, stores},
	{"a copy's renewal is taken for a mark", term, `case !a.Write.Follows(cur.ReservedUntil):`, `case false:`, leaseOwn},
	{"a renewal forgets its attempts without an answer", term, `confirmed, asked := t.stored[0].until, t.unanswered()`, `confirmed, asked := t.stored[0].until, t.unanswered()[:0]`, leaseOwn},
	{"a condition grows for as long as nobody answers", term, `full := len(t.stored) > mostAsked`, `full := false`, leaseOwn},
	{"trust in more than a full condition reserves", term, `if full || !protocol.Cap(known).IsZero() {`, `if !protocol.Cap(known).IsZero() {`, leaseOwn},
	{"what an outage left short waits for the next renewal", renew, `	if at.Again {
		a.RenewNow()
	}
`, ``, leaseOwn},
	{"a claim in a glitch stays ahead", renew, `	a.checkFloor(ctx)
	return true`, `	return true`, clocksOwn},
	{"a glitch that ends before the answer to a claim is not noticed", renew, `early := a.over == nil && a.tooEarly(at)`, `early := false`, clocksOwn},
	{"Start waits for a node ID that was given up", start, `case <-renewed:`, `case <-map[bool]<-chan struct{}{true: renewed}[false]:`, clocksOwn},
	{"Start returns while another node ID is claimed", start, `case over != nil: //`, `case false: //`, clocksOwn},
	{"Start waits for the first regular renewal", start, `			asked = true
			a.RenewNow()
`, `			asked = true
`, clocksOwn},
	{"Start does not say why it waits", start, `			_, err := a.Lease() // why the node ID may not be used yet
			return errors.Join(err, context.Cause(ctx))`, `			return context.Cause(ctx)`, clocksOwn},
	{"an on-demand agent keeps what a glitch claimed", naps, `unanswered := a.checkFloor(ctx)`, `unanswered := false`, clocksOwn},
	{"Start waits for the node ID of an agent that has ended", start, `		case <-a.Done():
			begins.Stop()
			return a.Err()
`, ``, clocksOwn},
	{"a release after a glitch forgets what was stamped", renew, `		last = a.timeline.Seal()
`, `		last = wall
`, clocksOwn},
	{"a release after a glitch frees what a copy may stamp", renew, `early = !copied && a.over`, `early = (copied || !copied) && a.over`, clocksOwn},
	{"a jumped clock is confirmed by a renewal", renew, `	if jumped {
		ceiling = a.ceiling
	}
`, ``, clocksOwn},
	{"a jumped clock is confirmed where the store disagrees", renew, `	} else if v != untold {
		return // and the next renewal asks again
	}`, `	}`, clocksOwn},
	{"a clock that was put right is never followed", renew, `	if v == right {
		sent = t.Ceiling(wall, mono)
	} else if v != untold {`, `	_, _ = wall, mono
	if v != untold {`, clocksOwn},
	{"the clock of renewals follows one that was set back", renew, `case protocol.CheckSkew(before, wall, a.pool.ServerTime, a.cfg.timings().MaxSkew()) != nil:`, `case false:`, clocksOwn},
	{"a restored machine abandons the original's claim", claim, `	if a.timeline.Copied() {
		a.settled()
		return nil
	}
`, ``, copiesOwn},
	{"a lease that expires hides a restore", watchdog, `	if a.timeline.Copied() {
		err = a.copied()
	}
`, ``, copiesOwn},
	{"an expiry looks for a restore only before its fence", watchdog, `	a.timeline.Seal()
`, ``, copiesOwn},
	{"the fence of a term forgets a restore", "pkg/snowflake/fence.go", `if state == isSealed && !ends {`, `if state == isSealed {`, copiesOwn},
	{"a fence forgets a restore that a call has noticed", "pkg/snowflake/fence.go", `t.state, t.noticed = isSealed, true`, `t.state = isSealed`, copiesOwn},
	{"a glitch's fence hides a restore", renew, `		copied = a.timeline.Copied() // the snapshot was made just before the fence
`, ``, clocksOwn},
	{"a restored process waits for its next renewal", "pkg/lease/grow.go", `			if a.timeline.Copied() {
				return true, nil
			}
`, ``, copiesOwn},
	{"a claim is sent after the clock has jumped ahead", claim, `if a.jumped(w.At, m0) {`, `if false {`, clocksOwn},
	{"a claim is sent after the clock has jumped back", "pkg/lease/jump.go", `max(ahead, behind) > a.cfg`, `max(ahead, 0*behind) > a.cfg`, clocksOwn},
	{"small steps back of a clock add up", "pkg/lease/jump.go", `protocol.Latest(at.answered.wall, store)`, `at.answered.wall`, clocksOwn},
	{"a slow check of the table hides a lag", start, `	if err := a.checkClock(at, pool.ServerTime); err != nil {`, `	at.answered = a.clocksAfter()
	if err := a.checkClock(at, pool.ServerTime); err != nil {`, clocksOwn},
	{"a slow card costs a read of the pool's item", "pkg/lease/pool.go", `	if hinted {`, `	if hinted && false {`, herdsOwn},
	{"a card replaces the item that was read slowly", "pkg/lease/pool.go", `	if hinted {`, `	if hinted || true {`, herdsOwn},
	{"an older card replaces the one that was read slowly", "pkg/lease/pool.go", `		a.pool, a.hinted = p, true // so`, `		// so`, herdsOwn},
	{"a slow connection hides a lead", "pkg/lease/pool.go", `took <= a.cfg.timings().MaxSkew() ||`, `took <= time.Hour ||`, clocksOwn},
	{"a slow new connection hides a jump", "pkg/lease/jump.go", `p, at, _, err = a.soon(ctx, p, at, false)`, `_ = a`, clocksOwn},
	{"a clock that jumped is compared with a reading after the answer", "pkg/lease/jump.go", `a.compared = at
`, `a.compared = exchange{a.clocks(), at.answered}
`, clocksOwn},
	{"a restored process retries the original's renewal", naps, `		if a.timeline.Copied() {
			return nil
		}
`, ``, copiesOwn},
	{"an earlier claim is trusted beyond its capped reservation", term, `short := max(l.ExpiresAt.Add(w.ClaimGuard).Sub(l.ReservedUntil), 0)`, `short := max(w.At.Add(w.TTL+w.ClaimGuard).Sub(w.ReservedUntil), 0)`, "./internal/tenure"},
	{"only the last renewal without an answer is released", term, `if t.ours(cur) && t.sent(cur) {`, `if t.ours(cur) && cur.Renewal == t.asked && t.sent(cur) {`, "./internal/tenure ./pkg/lease"},
	{"only the last renewal of a reservation is released", term, `last.sent = append(slices.Clone(last.sent[max(len(last.sent)+1-mostAsked, 0):]), now)`, `last.sent = append(slices.Clone(last.sent[:0]), now)`, "./internal/tenure"},
	{"a copy's renewal is released if it reserved as much", term, `return cur.ExpiresAt.Equal(w.expires) && cur`, `return cur`, "./internal/tenure"},
	{"a process restored inside a renewal sends it", renew, `	if a.timeline.Copied() {
		return false
	}
	a.mu.Lock()
	a.attemptNow()
`, `	a.mu.Lock()
	a.attemptNow()
`, copiesOwn},
	{"a process restored just before the fence releases", "pkg/lease/close.go", `copied = copied || a.timeline.Copied()`, `_ = copied`, copiesOwn},
	{"small steps of a clock add up", "pkg/lease/jump.go", `if at.sent.wall.After(latest) {`, `if at.sent.wall.After(latest) && false {`, clocksOwn},
	{"an agent stays with a broken item", renew, `errors.As(err, &corrupt) && a.isOver(`, `errors.As(err, &corrupt) && false && a.isOver(`, outagesOwn},
	{"a broken item that was given up blocks an environment", claim, `if a.napping != nil && !errors.As(err, &corrupt) {`, `if a.napping != nil && (errors.As(err, &corrupt) || corrupt == nil) {`, outagesOwn},
	{"a claim of a broken item is forgotten", claim, `unsettled != nil {`, `unsettled != nil && false {`, outagesOwn},
	{"a comparison of clocks changes the pool of a claim", "pkg/lease/jump.go", `	p, at, err := a.readPool(ctx)
	if err == nil {
`, `	p, at, err := a.readPool(ctx)
	if err == nil {
		a.pool, a.hinted = p, false
`, clocksOwn},
}
