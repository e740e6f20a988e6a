package main

const (
	timeline  = "pkg/snowflake/timeline.go"
	fence     = "pkg/snowflake/fence.go"
	generator = "pkg/snowflake/generator.go"
	slow      = "pkg/snowflake/slow.go"
	reserve   = "pkg/snowflake/slow.go"
	anchor    = "pkg/snowflake/anchor.go"
	idTerm    = "pkg/snowflake/term.go"
	block     = "pkg/snowflake/block.go"
	ids       = "./pkg/snowflake"
)

// The mutants of the fence, which keeps a generator inside its span.
var idMutants = []mutant{
	{"Next without the fence by the monotonic clock", generator, `if now < tm.deadline.Load() { // the fence, by the monotonic clock, on each call`, `if true {`, ids},
	{"Next without the fence by value", generator, `end := min((tick+1)<<(tm.seqBits&63), tm.limit.Load()) // never`, `end := (tick + 1) << (tm.seqBits & 63) // never`, ids},
	{"Next ahead of the clock", generator, `end := min((tick+1)<<(tm.seqBits&63), tm.limit.Load()) // never`, `end := tm.limit.Load() // never`, ids},
	{"the strict mode ignores the wall clock", generator, `if wall >= tm.wallEnd.Load() {`, `if wall >= tm.wallEnd.Load() && false {`, ids},
	{"a drawn ticket is not looked at again by the monotonic clock", slow, `if mono >= tm.deadline.Load() || wall`, `if wall`, ids},
	{"a drawn ticket is not looked at again by the wall clock", slow, `|| wall >= tm.wallEnd.Load() ||`, `|| wall >= tm.wallEnd.Load() && false ||`, ids},
	{"a drawn ticket is not looked at again by value", slow, `wall >= tm.wallEnd.Load() || ticket >= tm.limit.Load() {`, `wall >= tm.wallEnd.Load() {`, ids},
	{"a void ticket is handed out", slow, `if over && tick <= last && ticket < sealed {`, `if over && last < 1<<62 && ticket < sealed {`, ids},
	{"reserve without the fence by the monotonic clock", reserve, `if now >= tm.deadline.Load() || state >= sealed {`, `if state >= sealed {`, ids},
	{"reserve without the fence by value", reserve, `end := min((tick+1)<<tm.seqBits, limit)`, `end := (tick + 1) << tm.seqBits`, ids},
	{"reserve begins outside of the span", reserve, `if first >= limit { // the fence, by value`, `if false {`, ids},
	{"a new tick without the fence by the wall clock", reserve, `if mono >= tm.deadline.Load() || wall >= tm.wallEnd.Load() {`, `if mono >= tm.deadline.Load() || wall >= tm.wallEnd.Load() && false {`, ids},
	{"reserve draws without a comparison", reserve, `if tm.state.CompareAndSwap(state, first+n-1) {`, `if tm.state.Store(first + n - 1); true {`, ids},
	{"a block ignores the deadline", block, `if now < tm.deadline.Load() && tm.tickAt(now)-tm.tickOf(b.next)`, `if tm.tickAt(now)-tm.tickOf(b.next)`, ids},
	{"the seal leaves the deadline", fence, `tm.deadline.Store(math.MinInt64)`, `_ = math.MinInt64`, ids},
	{"the seal reads and does not swap", fence, `drawn = tm.state.Swap(sealed)`, `tm.state.Store(sealed)`, ids},
	{"the last millisecond lags", fence, `t.used, t.last = tm.last, t.layout.endOf(tm.last)`, `t.used, t.last = tm.last, t.layout.endOf(tm.last-1)`, ids},
	{"the last millisecond is that of the queue", fence, `min(tm.tickOf(drawn), tm.begun(t.mono()))`, `tm.tickOf(drawn)`, ids},
	{"stamps from before not_before", timeline, `t.used = max(t.used, l.tickOf(t.span.NotBefore.UnixMilli()))`, `_ = l`, ids},
	{"stamps not_before itself", idTerm, `tm.first = (used+1)<<tm.seqBits - 1`, `tm.first = used<<tm.seqBits - 1`, ids},
	{"a late renewal shortens the span", timeline, `t.untilMs, t.deadline = max(t.untilMs, until.UnixMilli()), max(t.deadline, int64(deadline))`, `t.untilMs, t.deadline = until.UnixMilli(), max(t.deadline, int64(deadline))`, ids},
	{"a late renewal moves the deadline back", timeline, `t.untilMs, t.deadline = max(t.untilMs, until.UnixMilli()), max(t.deadline, int64(deadline))`, `t.untilMs, t.deadline = max(t.untilMs, until.UnixMilli()), int64(deadline)`, ids},
	{"a closed timeline is bound again", timeline, `	if t.state == isClosed {
		return ErrClosed
	}
`, ``, ids},
	{"the span ends a millisecond late", timeline, `min(t.layout.tickOf(nextMs(t.untilMs)), 1<<t.layout.TimeBits)`, `min(t.layout.tickOf(nextMs(t.untilMs)+1), 1<<t.layout.TimeBits)`, ids},
	{"generators of one node have two layouts", timeline, `if t.layout != nil && !t.layout.equal(g.layout) {`, `if false {`, ids},
	{"the lease's clock goes back", anchor, `max(wall, mono+floor))`, `max(wall, mono-mono))`, ids},
	{"the lease's clock ignores a step forward", anchor, `max(wall, mono+floor))`, `max(wall-wall, mono+floor))`, ids},
}
