package main

const (
	widening = "internal/protocol/widening.go"
	widen    = "pkg/lease/leasepool/widen.go"
	widener  = "internal/protocol/widener.go"
)

// The mutants of changes of the width while the fleet makes IDs.
var widenMutants = []mutant{
	{"mark ignores reserved_until", dynamo, `AND reserved_until < :from",`, `AND :from = :from",`, stores},
	{"mark of an older try", dynamo, `	u.onlyIf += u.knows(w.Try - 1)
`, ``, stores},
	{"mark skips what is missing", dynamo, `onlyIf: "attribute_not_exists(pool_group) OR version`, `onlyIf: "version`, stores},
	{"a claimant waits for a dead widener", "pkg/lease/claim.go", `		a.uncap(ctx, a.clock.Wall()) // a`, `		// a`, poolOwn},
	{"no cap while a try is open", widening, `if end := Cap(p); !end.IsZero() && until.After(end) {`, `if end := Cap(p); false && until.After(end) {`, poolOwn},
	{"the cap lowers what was asked for", term, `if t.Stuck(known) {`, `if false {`, poolOwn},
	{"trust is not shortened by the cap", term, `m0 -= t.missing(w0, want.Lease)`, `_ = t.missing(w0, want.Lease)`, poolOwn},
	{"commit although a mark was refused", widener, `	return ErrReserved
}`, `	delete(w.left, m.NodeID)
	return nil
}`, poolOwn},
	{"commit of another try", poolDynamo, `onlyIf: "widen_try = :try AND widen_state = :open " +`, `onlyIf: ":try = :try AND widen_state = :open " +`, stores},
	{"commit of a void try", poolDynamo, `onlyIf: "widen_try = :try AND widen_state = :open " +`, `onlyIf: "widen_try = :try AND :open = :open " +`, stores},
	{"void of a committed try", poolDynamo, `onlyIf: "widen_try = :try AND widen_state = :open",`, `onlyIf: "widen_try = :try AND :open = :open",`, stores},
	{"begin over another try", poolDynamo, `onlyIf: "widen_try = :before AND widen_state = :seen AND`, `onlyIf: ":before = :before AND widen_state = :seen AND`, stores},
	{"node IDs are added while a try is open", poolDynamo, `AND widen_try = :try AND widen_state <> :open",`, `AND widen_try = :try AND :open = :open",`, stores},
	{"node IDs are added before their width", widener, `to := min(size, 1<<p.Bits())`, `to := size`, poolOwn},
	{"mark of a late seed's node ID is skipped", widen, `		for _, l := range g.Leases {
			w.Found(l)
		}
`, `		there := map[int]bool{}
		for _, l := range g.Leases {
			w.Found(l)
			there[l.NodeID] = true
		}
		for node := n * protocol.GroupSize; node < (n+1)*protocol.GroupSize; node++ {
			if !there[node] {
				w.Found(protocol.Lease{NodeID: node, WidenTry: item.Widening.Try})
			}
		}
`, poolOwn},
	{"the cap lets E itself through", widening, `return p.Widening.From.Add(-time.Millisecond)`, `return p.Widening.From`, poolOwn},
	{"begin after a try that is done", poolDynamo, `onlyIf: "widen_try = :before AND widen_state = :seen AND`, `onlyIf: "widen_try = :before AND :seen = :seen AND`, stores},
	{"wider node IDs are seeded below E", widener, `return Latest(Latest(at, p.Floor), p.Changed())`, `return Latest(at, p.Floor)`, poolOwn},
	{"wider node IDs are made below E by a mark", widener, `From: w.pool.Widening.From, Floor: w.pool.floor(at)}`, `From: w.pool.Widening.From, Floor: at}`, poolOwn},
	{"wider node IDs are seeded without the mark", widener, `Floor: p.floor(floor), WidenTry: p.Widening.Try}`, `Floor: p.floor(floor)}`, poolOwn},
	{"a generator keeps its width", timeline, `		ends = t.span.Eras.firstTick(*t.layout, next)
`, ``, ids},
	{"an era begins where stamps were confirmed", timeline, `if e.From.UnixMilli() <= t.untilMs || len`, `if len`, ids},
	{"a mark from the future is tried without end", widen, `if unread != nil || now.Widening != item.Widening {`, `if unread != nil || now.Widening == item.Widening {`, poolOwn},
	{"a refused mark is tried without end", widener, `	case res.Lease.ReservedUntil.Before(m.From):
		return ErrRefused
`, ``, poolOwn},
	{"a reservation for years makes a pool's item corrupt", widen, `if l.ReservedUntil.After(now.Add(2 * farFuture)) {`, `if l.ReservedUntil.IsZero() {`, poolOwn},
	{"a pool that stays narrow ends a search", "pkg/lease/pool.go", `if ctx.Err() != nil || permanent(err) {
		return err
	}
	a.narrow`, `if err != nil {
		return err
	}
	a.narrow`, leaseOwn},
	{"a widening without an answer ends a search", "pkg/lease/pool.go", `context.WithTimeout(ctx, widenLimit)`, `context.WithTimeout(ctx, 1000*widenLimit)`, leaseOwn},
	{"a pool that stays narrow is widened at each search", "pkg/lease/pool.go", `a.narrow != 0 && now-a.narrow < widenAgain`, `now < 0`, leaseOwn},
	{"node IDs are added to a pool that vanished, without end", widen, `		item, err := p.change(ctx, w)
		if err != nil {
			return err
		}
		c.Pool = item`, `		res, err := p.writePool(ctx, w)
		if err != nil {
			return err
		}
		if res.Pool != nil {
			c.Pool = *res.Pool
		}`, poolOwn},
}
