package main

const (
	layout = "pkg/snowflake/layout.go"
)

// The mutants that independent tests found in the generator.
var snowflakeMutants = []mutant{
	{"a Close lets a Bind in", fence, `	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end(isClosed)`, `	last = t.Seal()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = isClosed
	return last`, ids},
	{"a seal before the epoch underflows", fence, `max(limit, 1)-1`, `limit-1`, ids},
	{"a fixed node borrows", timeline, `	if s.Unrecorded {
		t.maxBack = 0
	}
`, ``, ids},
	{"the lease's clock stays ahead after a glitch", anchor, `max(wall, mono+floor))`, `max(wall, mono+floor, func() int64 { t.floor.Store(max(floor, wall-mono)); return 0 }()))`, ids},
	{"stamps follow a wall clock past the ceiling", timeline, `	anchor = min(anchor, t.ceiling)
`, ``, ids},
	{"stamps follow a wall clock beyond the ceiling up to it", anchor, `anchor = tm.anchor
	}`, `anchor = t.ceiling
	}`, ids},
	{"a lower ceiling is for later stamps", timeline, `if t.layout != nil && t.term.Load().anchor > t.ceiling {`, `if false {`, ids},
	{"a restored machine goes on", generator, `if g.t.watched && g.t.copiedSince(tm) {`, `if false {`, ids},
	{"a restored machine goes on in Next", generator, `if atomic.LoadUint64(g.machine) != tm.generation {`, `if atomic.LoadUint64(g.machine) != tm.generation && false {`, ids},
	{"a call that waited goes on in a restored machine", slow, `|| g.t.watched && g.t.copiedSince(tm) ||`, `||`, ids},
	{"a ticket that two copies hold is handed out", fence, ` && !tm.void, tm.last`, `, tm.last`, ids},
	{"a span that two copies claimed is bound", timeline, `	if t.Copied() {
		return copiedError{}
	}
	t.seal()`, `	t.seal()`, ids},
	{"a bind takes note of the copy", timeline, `tm.era, tm.generation = era, t.known.Load()`, `tm.era, tm.generation = era, t.generation()`, ids},
	{"a claim has no ceiling", term, `Ceiling: t.Ceiling(t.Lease.ExpiresAt.Add(-t.ttl),`, `Ceiling: t.Ceiling(t.Lease.ExpiresAt.Add(1e16),`, leaseOwn},
	{"a renewal does not lift the ceiling", renew, `	a.timeline.SetCeiling(`, `	_ = (`, clocksOwn},
	{"a copied block goes unnoticed by vet", block, `	_    noCopy    // two copies would hand out the same tickets
`, ``, ids},
	{"a tick past the end wraps around", reserve, `		tick = min(tick, g.ticks)
`, ``, ids},
	{"not_before past the end wraps around", timeline, `	t.used = min(t.used, 1<<l.TimeBits)
`, ``, ids},
	{"a span that ended long ago has no end", layout, `if ms <= epoch {`, `if ms-epoch <= 0 {`, ids},
	{"an unsigned column has no IDs", "pkg/snowflake/encode.go", `return id.set(fit("integer",`, `return id.set(0, ErrSyntax)
		return id.set(fit("integer",`, ids},
	{"an unsigned column has negative IDs", "pkg/snowflake/encode.go", `return id.set(fit("integer", strconv.FormatUint(v, 10), v))`, `return id.set(ID(v), nil)`, ids},
}
