package main

import "slices"

const (
	writes     = "internal/protocol/writes.go"
	dynamo     = "internal/protocol/expressions.go"
	poolDynamo = "internal/protocol/poolexpressions.go"
	term       = "internal/tenure/term.go"
	agent      = "pkg/lease/agent.go"
	start      = "pkg/lease/start.go"
	claim      = "pkg/lease/claim.go"
	renew      = "pkg/lease/renew.go"
	watchdog   = "pkg/lease/watchdog.go"
	closing    = "pkg/lease/close.go"
	store      = "internal/protocol/dynamodb.go"
	stores     = "./internal/protocol ./pkg/lease/leasepool ./internal/tenure ./pkg/lease"
	poolOwn    = "./pkg/lease/leasepool ./internal/tenure ./pkg/lease"
	leaseOwn   = "./internal/tenure ./pkg/lease"
	// The agent's tests of one subject are in a room, and notice the mutants of that subject.
	napsOwn    = "./proof/internal/naps " + leaseOwn
	clocksOwn  = "./proof/internal/clocks " + leaseOwn
	copiesOwn  = "./proof/internal/copies " + leaseOwn
	outagesOwn = "./proof/internal/outages " + leaseOwn
	herdsOwn   = "./proof/internal/herds " + leaseOwn
)

var mutants = slices.Concat(
	leaseMutants,
	agentMutants,
	onDemandMutants,
	poolMutants,
	widenMutants,
	idMutants,
	discoveryMutants,
	cliMutants,
	snowflakeMutants,
	clusterMutants,
	embeddedMutants,
	hostileMutants,
	functionMutants,
	poolItemMutants,
	pageMutants,
	worldMutants,
	copyMutants,
	infraMutants,
	blockMutants,
	growthMutants,
	waitMutants,
	edgeMutants,
)

// leaseMutants change the code of a lease, in the order of its life.
var leaseMutants = []mutant{
	{"claim without the expiry", dynamo, `expires_at < :expired_before`, `:expired_before = :expired_before`, stores},
	{"claim without σ after the expiry", writes, `return Trunc(w.At.Add(-w.ClaimGuard - w.Patience))`, `return Trunc(w.At.Add(-w.Patience))`, stores},
	{"claim whose task matches skips the expiry", dynamo, `(attribute_not_exists(holder) OR expires_at`, `(attribute_not_exists(holder) OR task = :task OR expires_at`, stores},
	{"claim ignores reserved_until", dynamo, `AND reserved_until BETWEEN :zero AND :reserved_by`, `AND :zero <= :reserved_by`, stores},
	{"claim lowers reserved_until", writes, `if until := Trunc(w.ReservedUntil); until.Before(by) {`, `if until := Trunc(w.ReservedUntil); false {`, stores},
	{"claim of a retired node ID", dynamo, `AND attribute_not_exists(retired) `, ``, stores},
	{"claim ignores the layout", dynamo, `	u.onlyIf += u.knows(w.WidenTry)
	var gone`, `	var gone`, stores},
	{"claim of whoever knows no try ignores marks", dynamo, `return " AND attribute_not_exists(widen_try)"`, `return ""`, stores},
	{"a try of 0 marks an item", "internal/protocol/item.go", `it.WidenTry == 0 && av["widen_try"] != nil ||`, `false ||`, protocolOwn},
	{"claim heals a missing version", dynamo, `onlyIf: "version BETWEEN :zero AND :most AND attribute_not_exists`, `onlyIf: ":most = :most AND attribute_not_exists`, stores},
	{"claim takes a negative reserved_until", dynamo, `reserved_until BETWEEN :zero AND :reserved_by`, `reserved_until <= :reserved_by`, stores},
	{"a claim of the largest version looks possible", writes, `old.WidenTry > w.WidenTry, old.Version >= mostEver:`, `old.WidenTry > w.WidenTry:`, "./pkg/lease"},
	{"claim begins its span at 0", dynamo, `not_before = reserved_until, reserved_until`, `not_before = :zero, reserved_until`, stores},
	{"claim keeps the version", dynamo, `version = version + :one`, `version = version + :zero`, stores},
	{"a landed claim is not recognised", term, `case res.Lease != nil && res.Lease.Holder == w.Session && res.Lease.Renewal == 0:`, `case false:`, leaseOwn},
	{"a landed claim counts from the last attempt", term, `return NewTerm(t, *res.Lease, first)`, `return NewTerm(t, *res.Lease, m0)`, leaseOwn},
	{"a doubtful claim is left", claim, `			_ = a.abandon(ctx, node, session)
		}
		return nil, err`, `		}
		return nil, err`, leaseOwn},
	{"renewal without renewal < :s", dynamo, `AND renewal < :renewal",`, `AND :renewal = :renewal",`, stores},
	{"renewal of another version", dynamo, `"holder = :session AND version = :version AND renewal < `, `"holder = :session AND :version = :version AND renewal < `, stores},
	{"renewal of another session", dynamo, `"holder = :session AND version = :version AND renewal < `, `":session = :session AND version = :version AND renewal < `, stores},
	{"renewal ignores the layout", dynamo, `" AND (" + own + ")" + u.knows(w.WidenTry)`, `" AND (" + own + ")"`, stores},
	{"a late renewal changes metadata", dynamo, `AND renewal < :renewal",`, `AND (renewal < :renewal OR attribute_exists(metadata))",`, stores},
	{"deadline from the reply", renew, `t.Confirmed(l, at.M0, at.Length)`, `t.Confirmed(l, a.clock.Monotonic(), at.Length)`, leaseOwn},
	{"deadline without the guard", term, `t.Deadline = max(t.Deadline, m0+length.Lease-t.guard)`, `t.Deadline = max(t.Deadline, m0+length.Lease)`, leaseOwn},
	{"deadline falls back", term, `t.Deadline = max(t.Deadline, m0+length.Lease-t.guard)`, `t.Deadline = m0 + length.Lease - t.guard`, leaseOwn},
	{"reserved_until over confirmed ones only", term, `t.saw(protocol.Trunc(w0.Add(want.Lease)), until)`, `t.askedExpires, t.askedUntil = protocol.Latest(t.Lease.ExpiresAt, protocol.Trunc(w0.Add(want.Lease))), protocol.Latest(t.Lease.ReservedUntil, until)`, leaseOwn},
	{"expiry from a wall clock that stepped back", term, `t.askedExpires = protocol.Latest(t.askedExpires, expires)`, `t.askedExpires = expires`, leaseOwn},
	{"renewals take the wall clock itself", renew, `w0 := a.timeline.Now()`, `w0 := a.clock.Wall()`, leaseOwn},
	{"a clone goes unnoticed", term, `case cur.Renewal > t.asked, cur.Renewal == t.asked && !t.sent(cur):`, `case cur.Renewal == t.asked && !t.sent(cur):`, leaseOwn},
	{"a landed renewal is taken for a loss", term, `case cur.Renewal >= a.Write.Renewal:
		return Landed`, `case cur.Renewal >= a.Write.Renewal:
		return Taken`, leaseOwn},
	{"a failed renewal is taken for a landed one", term, `case cur.Renewal >= a.Write.Renewal:`, `case cur.Renewal < a.Write.Renewal:`, leaseOwn},
	{"another version is taken for ours", term, `cur.Holder == t.Lease.Holder && cur.Version == t.Lease.Version`, `cur.Holder == t.Lease.Holder`, leaseOwn},
	{"a lost lease is renewed again", renew, `case tenure.Taken:
			a.lose(`, `case tenure.Taken:
			func(*tenure.Term, error) {}(`, leaseOwn},
	{"use without the deadline", agent, `case !a.term.Held(now):`, `case false:`, leaseOwn},
	{"the generator is not told the deadline", renew, `a.timeline.Extend(t.Lease.ReservedUntil, t.IDDeadline)`, `a.timeline.Extend(t.Lease.ReservedUntil, 1<<62)`, leaseOwn},
	{"no watchdog", watchdog, `a.watchdog = time.AfterFunc(left, func() { a.bark(t) })`, `a.watchdog = time.AfterFunc(left, func() {})`, leaseOwn},
	{"no fence on a loss", renew, `	a.timeline.Seal()
`, ``, leaseOwn},
	{"an attempt outlives the time left", renew, `limit = min(limit, left)`, `_ = left`, leaseOwn},
	{"release before the fence", closing, `last := a.timeline.Close()
`, `defer a.timeline.Close()
	last := a.timeline.Now()
`, leaseOwn},
	{"release below not_before", term, `ReservedUntil: protocol.Latest(t.Lease.NotBefore, last),`, `ReservedUntil: last,`, leaseOwn},
	{"release of another version", dynamo, `onlyIf: "holder = :session AND version = :version AND renewal <= :renewal",`, `onlyIf: "holder = :session AND :version = :version AND renewal <= :renewal",`, stores},
	{"release by another session", dynamo, `onlyIf: "holder = :session AND version = :version AND renewal <= :renewal",`, `onlyIf: "version = :version AND renewal <= :renewal AND :session = :session",`, stores},
	{"abandon by another session", dynamo, `onlyIf: "holder = :session AND renewal = :zero",`, `onlyIf: "attribute_exists(holder) AND :session = :session AND renewal = :zero",`, stores},
	{"abandon of what a copy has renewed", dynamo, `onlyIf: "holder = :session AND renewal = :zero",`, `onlyIf: "holder = :session AND renewal >= :zero",`, stores},
	{"a skewed clock starts", "internal/protocol/time.go", `if max(ahead, behind) <= limit {`, `if true {`, poolOwn},
	{"eventual replication starts", store, `if replicated(out.Table) &&`, `if false &&`, leaseOwn},
	{"a claim is believed although its lease is over", claim, `case t != nil && t.Held(a.clock.Monotonic()):`, `case t != nil:`, leaseOwn},
	{"use before not_before", agent, `case a.earlyBy() > 0:`, `case false:`, leaseOwn},
	{"start returns before not_before", start, `a.over == nil && a.earlyBy() <= 0`, `a.over == nil && a.earlyBy() <= time.Hour`, leaseOwn},
	{"no fence at a close", closing, `last := a.timeline.Close()`, `last := a.timeline.Now()`, leaseOwn},
	{"use goes on after a release", agent, `	case a.closing:
		return Lease{}, ErrClosed
	case a.over != nil:
		return Lease{}, a.over
`, ``, leaseOwn},
	{"renewals go on after a release", closing, `	a.stop()
	<-a.stopped // no renewal is sent after the release
`, `	defer a.stop()
`, leaseOwn},
	{"a lease that was lost is released", closing, `if over == nil || errors.Is(over, errExpired) {`, `if over == nil || errors.Is(over, ErrLost) {`, outagesOwn},
	{"a confirmation after the end is taken over", renew, `if a.over != nil { // stopped at the deadline while the answer came`, `if false {`, leaseOwn},
	{"an old confirmation lowers reserved_until", term, `until := protocol.Latest(t.Lease.ReservedUntil, l.ReservedUntil)`, `until := l.ReservedUntil`, poolOwn},
	{"the store's Apply ignores the expiry", writes, `case old.Holder != "" && !old.ExpiresAt.Before(w.expiredBefore()):`, `case false:`, stores},
	{"the store's Apply ignores reserved_until", writes, `case old.ReservedUntil.After(w.reservedBy()):`, `case false:`, stores},
	{"the store's Apply takes any renewal", writes, `old.Version != w.Version || old.Renewal >= w.Renewal ||`, `old.Version != w.Version ||`, stores},
}
