package main

const (
	measuredFile = "internal/protocol/measured.go"
	length       = "internal/tenure/length.go"
	room         = "internal/tenure/room.go"
	grow         = "pkg/lease/grow.go"
	// addressBook is the memory of the client's transport.
	addressBook = "internal/lastaddress/transport.go"
	leasePool   = "pkg/lease/pool.go"
	growProof   = "./internal/tenure ./proof/internal/growth ./pkg/lease"
)

// The mutants of leases that grow.
var growthMutants = []mutant{
	{"a lease longer than its reserve", term, `min(want.Lease, want.Reserve-t.claimGuard)`, `want.Lease`, growProof},
	{"a grown lease longer than its reserve", length, `min(age/10, t.MaxTTL, reserve-t.ClaimGuard)`, `min(age/10, t.MaxTTL)`, growProof},
	{"trust by the length of another renewal", term, `t.Deadline = max(t.Deadline, m0+length.Lease-t.guard)`, `t.Deadline = max(t.Deadline, m0+max(length.Lease, t.Length.Lease)-t.guard)`, growProof},
	{"a stored expiry goes back", term, `t.askedExpires = protocol.Latest(t.askedExpires, expires)`, `t.askedExpires = expires`, growProof},
	{"a long span is a licence to stamp ahead", term, `return snowflake.Ceiling{At: w0.Add(t.ttl + t.claimGuard), Mono: m0}`, `return snowflake.Ceiling{At: w0.Add(t.Length.Reserve), Mono: m0}`, growProof},
	{"a pool of one grows", length, `if p.Limit()-p.ExcludeBelow <= 1 {`, `if false {`, growProof},
	{"a narrow pool reserves for hours", length, `if p.Narrow() {`, `if false {`, growProof},
	{"a renewal does not say its length", dynamo, `u.set += ", lease_ms = :ttl"`, `u.set += ""`, stores},
	{"a lease grows without a measurement", room, `return r.grows && r.seen.Fresh(now, skew)`, `return true`, growProof},
	{"a lease grows by an old measurement", room, `return r.grows && r.seen.Fresh(now, skew)`, `return r.grows`, growProof},
	{"a measurement from the future counts", measuredFile, `!m.At.After(now.Add(skew)) && `, ``, growProof},
	{"leases grow in a full pool", room, `r.grows = taken <= most`, `r.grows = taken <= most || true`, growProof},
	{"growth flaps", room, `most = size - size/10`, `most = size`, growProof},
	{"holders count beside the function", room, `return ByHolder(m) && now`, `return now`, growProof},
	{"a holder's count is taken for the schedule", "pkg/lease/leasepool/measure.go", `if tenure.ByHolder(before) {`, `if tenure.ByHolder(before) && m.Valid < 0 {`, poolOwn},
	{"a measurement with another key is never replaced", measuredFile, `if m.odd != nil {`, `if false {`, protocolOwn},
	{"a measurement over another one", measuredFile, `u.onlyIf = "measured = :seen"`, `u.onlyIf = ":seen = :seen"`, stores},
	{"an agent without a generator grows", grow, `(a.cfg.Grow || a.growing.generates.Load()) &&`, `true &&`, growProof},
	{"a watched lease grows", grow, ` && !a.growing.short.Load() && a.grownTimings().Grows()`, ` && a.grownTimings().Grows()`, growProof},
	{"a pool that fills up costs more writes", grow, `if left <= 0 || grows ||`, `if true || left <= 0 || grows ||`, growProof},
	{"a grown lease that waits is renewed early", length, `if t.Deadline-t.Sent <= t.ttl-t.guard {`, `if t.Deadline-now <= t.ttl-t.guard {`, growProof},
	{"a long renewal under way is not shortened", grow, `grown := !again && until.Sub(a.timeline.Now()) > a.cfg.TTL`, `grown := !again && a.term.Length.Lease > a.cfg.TTL`, growProof},
	{"an answer after a freeze counts as fresh", length, `return min(in, max(t.RenewEvery, of.Deadline-now-usual))`, `return min(in, max(in, of.Deadline-now-usual))`, growProof},
	{"whoever counts learns nothing by it", grow, `		r.Learn(*p)
	}`, `		_ = p
	}`, growProof},
	{"a count of long ago is stored", grow, `const turnLimit = time.Minute`, `const turnLimit = time.Hour`, growProof},
	{"a read of the measurement costs the lease", grow, `min(renewLimit, left/4)`, `renewLimit`, growProof},
	{"growth is stuck in a widening", leasePool, `if !t.Stuck(a.pool) ||`, `if true || !t.Stuck(a.pool) ||`, growProof},
	{"growth voids a live widening", leasePool, ` || !t.AtRisk(a.clock.Monotonic()) {`, ` {`, growProof},
	{"what a grown lease reserves is an alarm", "pkg/lease/leasepool/stats.go", `if l.ReservedUntil.After(now) {`, `if false {`, "./pkg/lease/leasepool"},
	{"a long MaxReserve is an alarm", "pkg/lease/leasepool/reap.go", `return l.ExpiresAt.Add(-l.TTL).After(now.Add(stuckAfter))`, `return true`, "./pkg/lease/leasepool"},
	{"a clock that is ahead is no alarm", "pkg/lease/leasepool/reap.go", `return l.ExpiresAt.Add(-l.TTL).After(now.Add(stuckAfter))`, `return false`, "./pkg/lease/leasepool"},
	{"a grown lease that waits is late", "cmd/nodelease/internal/ui/state.go", `case n.Grown && waits > 0:`, `case false:`, "./cmd/nodelease/internal/ui"},
	{"every long lease may be late", "cmd/nodelease/internal/ui/state.go", `case n.Grown && waits > 0:`, `case waits > 0:`, "./cmd/nodelease/internal/ui"},
	{"holders on demand outlast an outage", "pkg/lease/leasepool/outage.go", ` && !l.OnDemand && `, ` && `, "./pkg/lease/leasepool"},
	{"dead holders outlast an outage", "pkg/lease/leasepool/outage.go", ` && !l.ExpiresAt.Before(now)`, ``, "./pkg/lease/leasepool"},
	{"an address is remembered without TLS", addressBook, `r.URL.Scheme != "https" || `, ``, "./internal/lastaddress"},
	{"the last addresses cannot be turned off", addressBook, `if os.Getenv(Variable) == "off" {`, `if os.Getenv(Variable) == "never" {`, "./internal/lastaddress"},
	{"a cluster node takes a grown lease for its time-out", "pkg/cluster/config.go", `ttl := c.Agent.TTL()`, `ttl := l.TTL`, "./pkg/cluster"},
	{"a lease grows beside a cluster node", "pkg/cluster/node.go", `		cfg.Agent.KeepShort()`, `		_ = cfg.Agent.KeepShort`, "./pkg/cluster"},
	{"a lease grows beside a directory", "pkg/discovery/register.go", `	agent.KeepShort()`, `	_ = agent.KeepShort`, "./pkg/discovery"},
	{"a raise leaves a grown lease to its holder", "pkg/lease/leasepool/raise.go", `			if l.Holder == "" {
				return nil
			}
`, `			return nil
`, poolOwn},
	{"growth of others is wrong for an on-demand agent", "pkg/lease/ondemand.go", `cmp.Or(cfg.MaxReserve, protocol.MaxTTL+ttl)`, `cfg.MaxReserve`, growProof},
}
