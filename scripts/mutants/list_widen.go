package main

const (
	widening = "internal/protocol/widening.go"
	widen    = "pkg/lease/leasepool/widen.go"
)

// The mutants of a width that changes while the fleet makes IDs.
var widenMutants = []mutant{
	{"mark ignores reserved_until", dynamo, `OR version >= :zero AND reserved_until < :from " +`, `OR version >= :zero AND :from = :from " +`, stores},
	{"mark of an older try", dynamo, `"AND (attribute_not_exists(layout) OR layout < :try)",`, `"AND attribute_exists(version)",`, stores},
	{"mark skips what is missing", dynamo, `onlyIf: "attribute_not_exists(pool_group) OR version`, `onlyIf: "version`, stores},
	{"no cap while a try is open", widening, `if end := p.Cap(); !end.IsZero() && until.After(end) {`, `if end := p.Cap(); false && until.After(end) {`, poolOwn},
	{"the cap lowers what was asked for", term, `if known.Capped(t.askedUntil) != t.askedUntil {`, `if false {`, poolOwn},
	{"trust is not shortened by the cap", term, `m0 -= t.missing(w0)`, `_ = t.missing(w0)`, poolOwn},
	{"commit although a mark was refused", widen, `	return errReserved
}`, `	return nil
}`, poolOwn},
	{"commit of another try", dynamo, `onlyIf: "item_format = :format AND widen_try = :try AND widen_state = :open " +`, `onlyIf: "item_format = :format AND :try = :try AND widen_state = :open " +`, stores},
	{"commit of a void try", dynamo, `onlyIf: "item_format = :format AND widen_try = :try AND widen_state = :open " +`, `onlyIf: "item_format = :format AND widen_try = :try AND :open = :open " +`, stores},
	{"void of a committed try", dynamo, `onlyIf: "item_format = :format AND widen_try = :try AND widen_state = :open",`, `onlyIf: "item_format = :format AND widen_try = :try AND :open = :open",`, stores},
	{"begin over another try", dynamo, `AND widen_try = :before AND widen_state = :seen",`, `AND :before = :before AND widen_state = :seen",`, stores},
	{"numbers come while a try is open", dynamo, `AND widen_try = :try AND widen_state <> :open",`, `AND widen_try = :try AND :open = :open",`, stores},
	{"numbers come before their width", widen, `to := min(size, 1<<c.Pool.Bits())`, `to := size`, poolOwn},
	{"mark of a late seed's number is skipped", widen, `			if marked[node] {
				continue`, `			if _, there := marked[node]; marked[node] || !there {
				continue`, poolOwn},
	{"the cap lets E itself through", widening, `return p.Widening.From.Add(-time.Millisecond)`, `return p.Widening.From`, poolOwn},
	{"begin after a try that is done", dynamo, `AND widen_try = :before AND widen_state = :seen",`, `AND widen_try = :before AND :seen = :seen",`, stores},
	{"wider numbers are seeded below E", "pkg/lease/leasepool/seed.go", `protocol.Seed{Floor: protocol.Latest(floor, item.Changed()), Layout`, `protocol.Seed{Floor: floor, Layout`, poolOwn},
	{"wider numbers are made below E by a mark", widen, `floor := protocol.Latest(time.Now(), c.Pool.Changed())`, `floor := time.Now()`, poolOwn},
	{"wider numbers are seeded without the mark", "pkg/lease/leasepool/seed.go", `item.Changed()), Layout: item.Widening.Try}`, `item.Changed())}`, poolOwn},
	{"a generator keeps its width", timeline, `		ends = t.span.Eras.firstTick(*t.layout, next)
`, ``, ids},
	{"an era begins where stamps were confirmed", timeline, `if e.From.UnixMilli() <= t.untilMs || len`, `if len`, ids},
}
