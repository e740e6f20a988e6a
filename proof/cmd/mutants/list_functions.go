package main

const (
	reap       = "pkg/lease/leasepool/reap.go"
	free       = "pkg/lease/leasepool/free.go"
	memory     = "pkg/lease/leasepool/reap_memory.go"
	attentive  = "pkg/lease/leasepool/attentive.go"
	candidates = "pkg/lease/leasepool/candidates.go"
	reaperItem = "internal/protocol/reaper.go"
	bootstrap  = "internal/app/handler/bootstrap.go"
	answering  = "internal/app/handler/cloudformation.go"
	handlerOwn = "./internal/app/handler"
)

// The mutants of the functions: of bootstrap's answers, and of the reaper: due leases,
// its scans, and its memory between them.
var functionMutants = []mutant{
	{"bootstrap gives up where a policy is on its way", bootstrap, `if !errors.Is(err, lease.ErrAccess) {`, `if true {`, handlerOwn},
	{"bootstrap never gives up what is denied", bootstrap, `if time.Now().After(end) {`, `if end.IsZero() {`, handlerOwn},
	{"a failed seed is hidden from the alarm", answering, `b.answered[e.RequestID] = a
	return a.err`, `b.answered[e.RequestID] = a
	return nil`, handlerOwn},
	{"a late event is handled again", answering, `if !again || e.RequestID == "" {`, `if !again || again {`, handlerOwn},
	{"an answer goes anywhere", answering, `if err := checkResponseURL(e.ResponseURL); err != nil {`, `if err := error(nil); err != nil {`, handlerOwn},
	{"an emulator's answer goes anywhere", answering, `&& (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()):`, `&& net.IP{}.String() != "":`, handlerOwn},
	{"an answer is sent once", answering, `if n+1 >= attempts && (`, `if n < attempts || (`, handlerOwn},
	{"an answer that hangs takes all of the time", answering, `limit = min(limit, time.Until(end)/attempts)`, `limit = time.Until(end)`, handlerOwn},
	{"an answer is given up while there is time", answering, `(!timed || time.Until(end) < lastAttempt || errors.As(`, `(timed || time.Until(end) < lastAttempt || errors.As(`, handlerOwn},
	{"another pool is seeded at once", bootstrap, `if e.RequestType == cfn.RequestUpdate && e.PhysicalResourceID != id {`, `if false {`, handlerOwn},
	{"an old floor moves a pool", bootstrap, `if r.recent() && !time.Time(r.Floor).Equal(`, `if !time.Time(r.Floor).IsZero() && !time.Time(r.Floor).Equal(`, handlerOwn},
	{"the earlier floor in another form moves a pool", bootstrap, `!time.Time(r.Floor).Equal(time.Time(before)) {`, `!time.Time(r.Floor).Equal(time.Unix(0, 0)) && e.ResourceProperties["Floor"] != e.OldResourceProperties["Floor"] {`, handlerOwn},
	{"a pool that a task seeded is renamed", bootstrap, `if failed := pool.Record(ctx); failed != nil {`, `if failed := ctx.Err(); failed != nil {`, handlerOwn},
	{"a rollback cannot return", bootstrap, `return false, err`, `return true, err`, handlerOwn},
	{"a renamed pool is seeded at once", bootstrap, `if err := b.mayAdd(ctx, r); err != nil {`, `if err := b.mayAdd(ctx, r); err != nil && false {`, handlerOwn},
	{"an old floor renames a pool", bootstrap, `time.Time(r.Floor).After(time.Now().Add(-oldFloor))`, `!time.Time(r.Floor).IsZero()`, handlerOwn},
	{"a resize binds no layout", "pkg/lease/leasepool/resize.go", `p.bindLayout(ctx, &c, s.Layout)`, `error(nil)`, handlerOwn},
	{"another table is taken for this one", bootstrap, `table != nil && table != b.Table &&`, `false &&`, handlerOwn},
	{"a clock that is off is missing permission", "internal/protocol/awserr.go", `if signedAtWrongTime(api) {`, `if false {`, stores},
	{"connections from before a freeze are used again", "internal/app/handler/aws.go", `{ connections.CloseIdleConnections() }`, `{}`, handlerOwn},
	{"FIPS endpoints are ignored", "internal/app/handler/aws.go", `endpoints{fips, dual}`, `endpoints{fips && false, dual}`, handlerOwn},
	{"the runtime's errors are information", "internal/app/handler/log.go", `slog.SetLogLoggerLevel(slog.LevelError)`, ``, handlerOwn},
	{"retired node IDs of other groups are not counted", "pkg/lease/leasepool/stats.go", `err = p.countRetired(ctx, &s)`, `_ = p.countRetired`, poolOwn},
	{"node IDs that no width has room for are free", "pkg/lease/leasepool/stats.go", `s.Free += s.Pool.Limit() - open`, `s.Free += s.Pool.Size - open`, poolOwn},
	{"metrics of two tables are one", "internal/app/handler/poolmetric.go", `{Name: aws.String("Table"), Value: &table}, `, ``, handlerOwn},
	{"a pool whose entries are broken is not tended", "internal/app/handler/reaper.go", `			if _, failed := r.pool(s.Pool, log).Tend(ctx); failed != nil {
				log.Warn("the pool's groups, its width or the verdict on its table were not checked; the next run tries again", "error", failed.Error())
			}
			report.Cleared, unswept = discovery.Sweep(ctx, r.Entries, s.Pool)
`, `			report.Cleared, unswept = discovery.Sweep(ctx, r.Entries, s.Pool)
			if unswept != nil {
				return unswept
			}
			if _, failed := r.pool(s.Pool, log).Tend(ctx); failed != nil {
				log.Warn("the pool's groups, its width or the verdict on its table were not checked; the next run tries again", "error", failed.Error())
			}
`, handlerOwn},
	{"a sweep takes the time in which a pool is tended", "internal/app/handler/reaper.go", `			if _, failed := r.pool(s.Pool, log).Tend(ctx); failed != nil {
				log.Warn("the pool's groups, its width or the verdict on its table were not checked; the next run tries again", "error", failed.Error())
			}
			report.Cleared, unswept = discovery.Sweep(ctx, r.Entries, s.Pool)
`, `			report.Cleared, unswept = discovery.Sweep(ctx, r.Entries, s.Pool)
			if _, failed := r.pool(s.Pool, log).Tend(ctx); failed != nil {
				log.Warn("the pool's groups, its width or the verdict on its table were not checked; the next run tries again", "error", failed.Error())
			}
`, handlerOwn},
	{"reap before the expiry", reap, `case l.ExpiresAt.Add(reapAfter).Before(now) &&`, `case true &&`, poolOwn},
	{"reap without grace", reap, `case l.ExpiresAt.Add(reapAfter).Before(now) &&`, `case l.ExpiresAt.Before(now) &&`, poolOwn},
	{"reap what is reserved ahead", reap, `&& l.ReservedUntil.Add(poolSkew).Before(now):`, `:`, poolOwn},
	{"reap on one look", reap, `} else if unchanged := d.unchangedSince(last); d.believe(`, `} else if unchanged := d.due; d.believe(`, poolOwn},
	{"reap on the first look", reap, `	if last != nil {
		held := max(`, `	if last == nil {
		last = &protocol.ReaperLook{Count: 2, Candidates: d.due.encode()}
	}
	if last != nil {
		held := max(`, poolOwn},
	{"the looks are not apart", reap, `return max(30*time.Second, time.Duration(held)*4*time.Millisecond) + 2*poolSkew`, `return time.Duration(held) + poolSkew`, poolOwn},
	{"the looks at a large pool are not further apart", reap, `max(30*time.Second, time.Duration(held)*4*time.Millisecond)`, `30*time.Second + 0*time.Duration(held)`, poolOwn},
	{"the looks do not allow for two clocks", reap, `time.Duration(held)*4*time.Millisecond) + 2*poolSkew`, `time.Duration(held)*4*time.Millisecond)`, poolOwn},
	{"a pool that has grown counts as it was", reap, `held := max(r.Held, last.Held)`, `held := min(r.Held, last.Held)`, poolOwn},
	{"reap without brake", reap, `r.Braked = len(unchanged) > brake(r.Held)`, `r.Braked = false && len(unchanged) > brake(r.Held)`, poolOwn},
	{"the brake does not wait for the longest lease", reap, `look.Wait = max(look.Wait, d.longest(unchanged)+2*poolSkew)`, `_ = d.longest`, poolOwn},
	{"the brake never lets go", reap, `looks > 2 {`, `looks > 3 {`, poolOwn},
	{"reap though nobody renews", reap, `return !r.Braked && d.alive > 0`, `return !r.Braked`, poolOwn},
	{"a look that is braked takes in what is new", reap, `look.Count, look.Braked, rest = last.Count+1, r.Braked, unchanged`, `look.Count, look.Braked = last.Count+1, r.Braked`, poolOwn},
	{"a look with an error counts", reap, `case s.failed.Load() || memory.Revision == taken:`, `case memory.Revision == taken:`, poolOwn},
	{"an error leaves the looks before it", reap, `	p.doubt.Store(run.forget(ctx) != nil)
`, `	p.doubt.Store(false)
`, poolOwn},
	{"an outage that the table never heard of is forgotten", reap, `if p.doubt.Load() && run.forget(ctx) == nil {`, `if false {`, poolOwn},
	{"an error that is tried again is no error", attentive, `s.failed.Store(true)`, `s.failed.Store(false)`, poolOwn},
	{"two reapers act on one look", memory, `if err == nil && !applied {`, `if false && !applied {`, poolOwn},
	{"a reset of the looks may be replayed", memory, `case errors.As(err, &corrupt):`, `case errors.As(err, &corrupt) || err == nil:`, poolOwn},
	{"a look of a wrong clock counts", reap, `last = nil // by a clock too wrong for a reaper`, ``, poolOwn},
	{"freeing goes on after an error", free, `cancel(unanswered(err))`, `_ = cancel`, poolOwn},
	{"a fingerprint without the renewal", candidates, `binary.BigEndian.PutUint64(n[8:], uint64(l.Renewal))`, ``, poolOwn},
	{"a fingerprint without the version", candidates, `binary.BigEndian.PutUint64(n[:8], uint64(l.Version))`, ``, poolOwn},
	{"a fingerprint without the holder", candidates, `_, _ = h.Write([]byte(l.Holder))`, ``, poolOwn},
	{"a memory is replaced unseen", reaperItem, `u := update{onlyIf: "revision = :seen", values`, `u := update{onlyIf: ":seen = :seen", values`, stores},
	{"a memory is made over another", reaperItem, `u.onlyIf = "attribute_not_exists(revision)"`, `u.onlyIf = "attribute_not_exists(holder)"`, stores},
	{"a memory is taken and left", reaperItem, `u.set = "SET revision = :new " + forgetLook
		return u`, `u.set = "SET revision = :new"
		return u`, stores},
	{"a forgotten memory stays", reaperItem, `return update{set: "SET revision = :new " + forgetLook,`, `return update{set: "SET revision = :new",`, stores},
	{"the store's Apply replaces a memory unseen", reaperItem, `if old.Revision != w.Seen {`, `if false {`, stores},
	{"a memory that no condition can name is kept", reaperItem, `!isText || *it.Revision == "" {`, `it.Revision == nil || !isText && false {`, stores},
}
