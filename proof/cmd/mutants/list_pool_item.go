package main

const (
	poolWrites = "internal/protocol/poolwrites.go"
	poolLayout = "pkg/lease/leasepool/layout.go"
	verdicts   = "internal/protocol/verdict.go"
	overlap    = "cmd/nodelease/internal/overlap/overlap.go"
	resizing   = "pkg/lease/leasepool/resize.go"
	doctors    = "./cmd/nodelease"
)

// The mutants of the pool's item: its layout, its floor, its
// revision.
var poolItemMutants = []mutant{
	{"a verdict of another Region counts", verdicts, `v.Region == region && v.Table`, `v.Table`, "./internal/protocol"},
	{"a verdict of another table counts", verdicts, `&& v.Table == table &&`, `&& table != "" &&`, "./internal/protocol"},
	{"a verdict from the future counts", verdicts, `age >= 0 && age <= VerdictAge`, `age <= VerdictAge`, "./internal/protocol"},
	{"a verdict counts forever", verdicts, `age >= 0 && age <= VerdictAge`, `age >= 0`, "./internal/protocol"},
	{"an incomplete answer makes a verdict", "internal/protocol/dynamodb.go", `if !d.complete(out.Table) {`, `if out.Table == nil {`, "./internal/protocol"},
	{"an unsafe verdict counts", verdicts, `|| !ok || !v.Safe {`, `|| !ok {`, "./internal/protocol ./pkg/lease"},
	{"a late verdict undoes a raise", verdicts, `u.onlyIf = "verdict = :seen"`, `u.onlyIf = "(attribute_not_exists(verdict) OR verdict <> :format OR verdict = :seen)"`, "./internal/protocol"},
	{"a late first verdict undoes a raise", verdicts, `attribute_not_exists(verdict) AND revision = :revision`, `attribute_not_exists(verdict) AND revision >= :revision`, "./internal/protocol"},
	{"a raise leaves the verdict of another table", verdicts, `set:    "SET revision = revision + :more REMOVE verdict",`, `set:    "SET revision = revision + :more",`, "./internal/protocol"},
	{"a raise leaves the verdict of another table on the cards", "pkg/lease/leasepool/raise.go", `if err := p.publish(ctx, c.Pool); err != nil {`, `if err := ctx.Err(); err != nil {`, herdsOwn},
	{"an older hint replaces newer knowledge", "internal/protocol/card.go", `attribute_not_exists(revision) OR revision < :revision OR`, `attribute_not_exists(revision) OR revision <> :revision OR`, "./internal/protocol"},
	{"an older count replaces a newer one on a card", "internal/protocol/card.go", `vouched_at = :vouched_at AND measured_at < :measured_at`, `vouched_at = :vouched_at AND measured_at <> :measured_at`, "./internal/protocol"},
	{"a raise that was cut off returns no pool", "pkg/lease/leasepool/raise.go", `	if err != nil {
		return c, err
	}
	c.Pool = item
`, `	if c.Pool = item; err != nil {
		return c, err
	}
`, poolOwn},
	{"a raise leaves cards of an item that is gone", "pkg/lease/leasepool/raise.go", `Behind: ahead})`, `Behind: 0 * ahead})`, poolOwn},
	{"a revision that is behind grows by one", verdicts, `p.Revision += w.Behind + 1`, `p.Revision++`, "./internal/protocol"},
	{"a clock that is wrong makes a verdict", "pkg/lease/leasepool/tend.go", `|| errors.Is(err, protocol.ErrClockSkew) {`, `{`, leaseOwn},
	{"a slow card excuses a wrong clock", "pkg/lease/pool.go", `	at.sent = a.clocks()
`, `	if at.sent.wall.IsZero() {
		at.sent = a.clocks()
	}
`, herdsOwn},
	{"an outage excuses a clock that is ahead", "pkg/lease/leasepool/pool.go", `		before = time.Now()
`, `		if before.IsZero() {
			before = time.Now()
		}
`, "./pkg/lease/leasepool"},
	{"a hint takes back what the agent knows", "pkg/lease/pool.go", `card.Revision < a.pool.Revision || `, ``, herdsOwn},
	{"a hint is believed where a strong read is needed", "pkg/lease/claim.go", `if seen.Free < 0 && a.hinted {`, `if false {`, leaseOwn},
	{"a hint is believed while the width changes", "internal/protocol/card.go", `return enough && p.Widening.State != WidenOpen`, `return enough`, herdsOwn},
	{"a layout counts before the claim by a card that is not final", "pkg/lease/pool.go", `	if protocol.FinalLayout(p) != nil {
		l.final.Store(&p)
	}`, `	if p.Layout != nil {
		l.final.Store(&p)
	}`, herdsOwn},
	{"begin is not pinned on exist_below", poolDynamo, `AND exist_below = :exist_below",`, `AND :exist_below = :exist_below",`, stores},
	{"a try is marked on what was read before it", widen, `	if c.Pool, err = p.change(ctx, begin); err != nil {
		return false, err
	}
`, `	numbers := c.Pool.ExistBelow
	if c.Pool, err = p.change(ctx, begin); err != nil {
		return false, err
	}
	c.Pool.ExistBelow = numbers
`, poolOwn},
	{"commit before all are marked", widener, `Bits: t.Bits}, len(w.left) == 0`, `Bits: t.Bits}, true`, poolOwn},
	{"release over a copy's renewal", dynamo, `AND renewal <= :renewal",`, `AND :renewal = :renewal",`, stores},
	{"a late retire undoes a later resize", dynamo, `AND (attribute_not_exists(resize) OR resize < :resize)",`, `AND :resize = :resize",`, stores},
	{"two layouts are bound", poolDynamo, `onlyIf: "attribute_not_exists(layout) AND attribute_not_exists(layout_before)`, `onlyIf: "attribute_not_exists(layout_before)`, stores},
	{"a layout is bound while an operator replaces it", poolDynamo, `attribute_not_exists(layout) AND attribute_not_exists(layout_before) AND`, `attribute_not_exists(layout) AND`, stores},
	{"a layout is bound that is too small", poolDynamo, `attribute_not_exists(layout_before) AND pool_size <= :nodes",`, `attribute_not_exists(layout_before) AND :nodes = :nodes",`, stores},
	{"another layout is taken for the pool's", poolLayout, `case want != nil && *item.Layout != protocol.LayoutOf(*want):`, `case false:`, poolOwn},
	{"generators ask nobody for the layout", "pkg/lease/start.go", `	a.timeline.DecideLayout(a.decideLayout)
`, ``, leaseOwn},
	{"the layout is that of the start, before the claim", poolLayout, `if item, err = p.change(ctx, protocol.SuspendLayout{Pool: p.Name, Revision: item.Revision}); err != nil {`, `if item.LayoutBefore = item.Layout; false {`, poolOwn},
	{"a layout counts before the claim without the mark", "internal/protocol/pool.go", `if !p.LayoutFinal || p.LayoutBefore != nil {`, `if p.LayoutBefore != nil {`, leaseOwn},
	{"a layout is marked before any claim", "pkg/lease/leasepool/reap.go", `if err == nil && d.claimed {`, `if err == nil {`, poolOwn},
	{"a final layout is suspended", poolDynamo, `attribute_exists(layout) AND attribute_not_exists(layout_final)",
		values: attributes{":revision": num(w.Revision)},`, `attribute_exists(layout)",
		values: attributes{":revision": num(w.Revision)},`, stores},
	{"the layout changes although a node ID was claimed", poolLayout, `if n.Version > 0 {`, `if n.Version > 1 {`, poolOwn},
	{"a resize beyond the layout", resizing, `		if err := fitsLayout(c.Pool, size); err != nil {
			return err
		}
`, ``, poolOwn},
	{"a resize beyond the layout begins", resizing, `	if err := fitsLayout(c.Pool, s.Size); err != nil {
		return c, err
	}
`, ``, poolOwn},
	{"holders are expected by an old view", poolDynamo, `set:    "SET expect = :expect, open_groups = :to",
		onlyIf: "revision = :revision",`, `set:    "SET expect = :expect, open_groups = :to",
		onlyIf: ":revision = :revision",`, stores},
	{"expecting holders closes groups", "pkg/lease/leasepool/expect.go", `open := max(c.Pool.OpenGroups, protocol.GroupsFor(c.Pool, expect))`, `open := protocol.GroupsFor(c.Pool, expect)`, poolOwn},
	{"a lower expectation replaces a higher one", "pkg/lease/leasepool/expect.go", `expect = max(expect, c.Pool.Expect)`, `_ = c.Pool.Expect`, poolOwn},
	{"a seed opens one group whatever the expectation", "pkg/lease/leasepool/spec.go", `max(openAtFirst(s.Size), room)`, `openAtFirst(s.Size)`, poolOwn},
	{"a narrow pool begins with one group whatever the expectation", "pkg/lease/leasepool/spec.go", `max(s.ExcludeBelow/protocol.GroupSize+1, room)`, `s.ExcludeBelow/protocol.GroupSize + 1`, poolOwn},
	{"a narrow pool keeps its width when more are expected", "pkg/lease/leasepool/expect.go", `!wider || c.Pool.OpenGroups == before && !short {`, `true || wider || c.Pool.OpenGroups == before && !short {`, poolOwn},
	{"groups are opened one by one", "internal/protocol/pool.go", `max(next, min(2*(last+1)-first, UsableGroups(p)))`, `max(next, min(next, 2*(last+1)-first, UsableGroups(p)))`, stores},
	{"a narrow pool gives a bit away when it doubles", "internal/protocol/pool.go", `p.Narrow() && to > next &&`, `false && p.Narrow() && to > next &&`, stores},
	{"the first renewal is as late as it may be", "internal/tenure/length.go", `max(min(every+every/2, trust*2/3), 0)`, `max(every+every/2, 0)`, leaseOwn},
	{"a fleet renews in step after its start", "pkg/lease/start.go", `a.begun, a.stepped = t, nil, false, false, true`, `a.begun, a.stepped = t, nil, false, false, false`, leaseOwn},
	{"a fleet renews in step after an outage", renew, `if failures > 1 { // as for`, `if false { // as for`, leaseOwn},
	{"the floor goes back", poolDynamo, `onlyIf: "floor < :to",`, `onlyIf: ":to = :to",`, stores},
	{"a node ID begins before the pool's floor", widener, `return Latest(Latest(at, p.Floor), p.Changed())`, `return Latest(at, p.Changed())`, poolOwn},
	{"a raise forgets the floor", "pkg/lease/leasepool/raise.go", `p.raiseFloor(ctx, &c, to)`, `error(nil)`, poolOwn},
	{"a fractional claim is not taken back", claim, `if corrupt.Written {`, `if false {`, stores},
	{"a claim takes a version out of range", dynamo, `":most": num(int64(mostEver - 1)), `, `":most": &types.AttributeValueMemberN{Value: "1E100"}, `, stores},
	{"a narrow pool without node IDs", "internal/protocol/item.go", `it.ExistBelow <= it.ExcludeBelow ||`, `it.ExistBelow < 0 ||`, stores},
	{"pools are compared by node IDs", overlap, `low, high := max(m.at, o.at), min(m.at+m.width, o.at+o.width)`, `low, high := m.at, m.at+16`, "./cmd/nodelease/internal/overlap"},
	{"retired holders are not compared", "cmd/nodelease/doctor_pool.go", `		m.Retiring = retiring[name]
`, `		_, _ = m, retiring[name]
`, doctors},
	{"a seed does not continue a widening", "pkg/lease/leasepool/expect.go", `c.Pool.OpenGroups == before && !short {`, `c.Pool.OpenGroups == before || short && false {`, poolOwn},
	{"a resize ignores the layout before a correction", poolLayout, `{p.Layout, p.LayoutBefore} {`, `{p.Layout} {`, poolOwn},
	{"a seed leaves the cards of a deleted pool", "pkg/lease/leasepool/cards.go", `if err != nil || ahead == 0 {`, `if err != nil || ahead >= 0 {`, "./pkg/lease/leasepool"},
	{"a seed is silent about cards that it cannot read", "pkg/lease/leasepool/cards.go", `if err != nil { // a card`, `if err != nil && one.Err() != nil { // a card`, "./pkg/lease/leasepool"},
	{"a raise leaves a card that refuses the item", "pkg/lease/leasepool/cards.go", `if err == nil && !applied {`, `if err == nil && !applied && false {`, poolOwn},
	{"a raise follows a card to any revision", "pkg/lease/leasepool/cards.go", `card.Revision > mostRevision {`, `card.Revision > 8*mostRevision {`, poolOwn},
	{"NULL is read as missing", "internal/protocol/bounds.go", `null && names[name] {`, `null && names[name] && false {`, "./internal/protocol"},
}
