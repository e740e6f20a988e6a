package main

const (
	cliOwn  = "./cmd/nodelease"
	textOwn = "./internal/text"
	execNap = "cmd/nodelease/exec_ondemand.go"
)

// The mutants of the gate for text, and of the bounds of a command.
var cliMutants = []mutant{
	{"text: letters from right to left are plain", "internal/text/line.go", `unicode.Variation_Selector, rightToLeft)`, `unicode.Variation_Selector)`, textOwn},
	{"text: any number of marks", "internal/text/line.go", `if m.base && m.marks < marks && Plain(r) {`, `if m.base && Plain(r) {`, textOwn},
	{"text: gaps of spaces", "internal/text/line.go", `r == ' ' && (m.blank || leading || last)`, `r == ' ' && (leading || last)`, textOwn},
	{"text: no limit", "internal/text/line.go", `limit < 0 || limit == 0 && i+size < len(s)`, `limit < -1<<40`, textOwn},
	{"text: C1 in JSON", "internal/text/json.go", `case Plain(r) && !`, `case r < 0xa0 || Plain(r) && !`, textOwn},
	{"text: arguments that are not strings pass", "internal/text/safe.go", `return Line(fmt.Sprint(arg)) // whatever it has inside`, `return arg`, textOwn},
	{"text: formulas in CSV", "internal/text/csv.go", `"=+-@"`, `"+-"`, textOwn},
	{"cli: the silence has no end", "cmd/nodelease/answers.go", `a.alarm = time.AfterFunc(a.limit, func() { a.giveUp(0) })`, `a.alarm = time.AfterFunc(time.Hour, func() { a.giveUp(0) })`, cliOwn},
	{"cli: a password is shown", "cmd/nodelease/shell.go", `u.User = url.User("xxxxx")`, `_ = u.User`, cliOwn},
	{"cli: times in the past are taken", "cmd/nodelease/id_read.go", `case t.Before(now):
		return t, usagef("%s %s: %s is in the past`, `case t.Year() < 1:
		return t, usagef("%s %s: %s is in the past`, cliOwn},
	{"cli: a node ID that was never held has a last holder", "cmd/nodelease/inspect.go", `once the reserved time has passed`, `once the time that its last holder reserved has passed`, cliOwn},
	{"cli: a resize that shrinks does not ask", "cmd/nodelease/resize.go", `if t.dry || spec.Size < item.Size {`, `if t.dry {`, cliOwn},
	{"cli: a release of a later version is not refused", "cmd/nodelease/release.go", `if l.Version != version {`, `if l.Version > version {`, cliOwn},
	{"cli: a followed list has no pool", "cmd/nodelease/follow.go", `pool: pool, item: read,`, `pool: pool, item: nil,`, cliOwn},
	{"cli: reap asks about what is due at first only", "cmd/nodelease/reap.go", `		due := slices.DeleteFunc(`, `		if a.asked != nil {
			break
		}
		due := slices.DeleteFunc(`, cliOwn},
	{"cli: a link is replaced by the deadline file", "cmd/nodelease/deadline.go", `err == nil && !is.Mode().IsRegular()`, `err == nil && is.IsDir()`, cliOwn},
	{"cli: a lease on demand that ran out is resumed", execNap, `if o.Left() <= 0 {`, `if false {`, cliOwn},
	{"cli: a program goes on with the node ID of another lease", execNap, `now.Version != o.held.Version)`, `now.Version == 0)`, cliOwn},
	{"cli: exec does not signal orphans", "cmd/nodelease/internal/supervise/descendants_linux.go", `now.started == p.started`, `now.parent == p.parent`, "./cmd/nodelease/internal/supervise"},
	{"cli: doctor vouches for pools that it has not compared", "cmd/nodelease/doctor_pool.go", `case d.pool != "" && pools[d.pool] == nil:`, `case d.pool != "" && pools[d.pool] == nil && len(names) == 0:`, cliOwn},
	{"cli: doctor vouches for pools that it cannot read", "cmd/nodelease/doctor_pool.go", `case len(unread) > 0:`, `case len(unread) > 1:`, cliOwn},
	{"cli: doctor counts the reaper's items as retired node IDs", "cmd/nodelease/doctor_pool.go", `err == nil && numberIn(i, "node_id") >= 0`, `err == nil || part != ""`, cliOwn},
	{"cli: hex without letters is decimal", "cmd/nodelease/id_read.go", `return []string{"decimal", "hex"}`, `return []string{"decimal"}`, cliOwn},
	{"cli: a question has no end", "cmd/nodelease/confirm.go", `case <-r.ctx.Done():`, `case <-context.Background().Done():`, cliOwn},
	{"cli: a resize retires what it has not shown", "cmd/nodelease/resize.go", `spec.From = item.Size`, `spec.From = 0`, cliOwn},
	{"cli: a dry run forgets what a narrow pool has room for", "cmd/nodelease/resize.go", `if narrow(c.Pool) { // a resize first`, `if false { // a resize first`, cliOwn},
	{"cli: a raise to a time that has passed means now", "cmd/nodelease/raise.go", `if ahead && until.Before(time.Now()) {`, `if ahead && until.IsZero() {`, cliOwn},
	{"cli: a raise is silent about what it creates", "cmd/nodelease/raise.go", `if n == 0 {`, `if n >= 0 {`, cliOwn},
	{"cli: IDs of a layout that is replaced are decoded by another", "cmd/nodelease/id_read.go", `stored := cmp.Or(p.Layout, p.LayoutBefore)`, `stored := cmp.Or(p.Layout)`, cliOwn},
	{"cli: doctor takes a pool whose item was deleted for half-seeded", "cmd/nodelease/doctor_pool.go", `case used: // Invariant (S1)`, `case used && false: // Invariant (S1)`, cliOwn},
	{"cli: doctor moves a fleet to a pool of any layout", "cmd/nodelease/doctor_pool.go", `find out which role did it, and move the fleet to a new pool",
				(&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --layout LAYOUT --floor TIME"))`, `find out which role did it, and move the fleet to a new pool",
				(&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --floor TIME"))`, cliOwn},
	{"cli: doctor advises a resize before the floor of a pool", "cmd/nodelease/doctor_pool.go", `if l.Pool.Floor.Before(first) {`, `if !first.IsZero() {`, cliOwn},
	{"cli: doctor finds room where all node IDs are reserved", "cmd/nodelease/doctor_pool.go", `case claimable == 0 && s.Capacity > 0:`, `case claimable < 0:`, cliOwn},
	{"cli: exec ends a program before its renewal is due", "cmd/nodelease/lease_flags.go", `max(span-max(t.every(), t.ttl/3)-t.ttl/10, 0)`, `max(span-t.ttl/3-t.ttl/10, 0)`, cliOwn},
	{"cli: a program is told of the deadline file of another lease", "cmd/nodelease/exec.go", `!ours && name != deadlineVariable {`, `!ours {`, cliOwn},
	{"cli: an empty floor means now", "cmd/nodelease/root.go", `f != nil && f.Changed && f.Value.String() == "" {`, `f != nil && f.Changed && name == "" {`, cliOwn},
	{"cli: a completion waits for an outage", "cmd/nodelease/resolve.go", `context.WithTimeout(ctx, completionLimit)`, `context.WithCancel(ctx)`, cliOwn},
	{"cli: a raise hides holders of retired node IDs", "cmd/nodelease/raise.go", `n.State == lease.Held || n.Holder != "" && n.Retired &&`, `n.State == lease.Held || n.Holder == "" && n.Retired &&`, cliOwn},
	{"cli: a retired node ID can be claimed after its release", "cmd/nodelease/release.go", `if done.Node.Retired {`, `if done.Node.NodeID < 0 {`, cliOwn},
	{"cli: watch takes a repaired item for a new one", "cmd/nodelease/watch.go", `!known && before.Corrupt[n.NodeID] != "":`, `!known && before.Corrupt == nil && n.NodeID < 0:`, cliOwn},
	{"cli: doctor creates a table that exists", "cmd/nodelease/doctor_table.go", `if protocol.TableName(d.table) == "nodelease" {`, `if d.table == "" {`, cliOwn},
	{"cli: an old alarm ends a new silence", "cmd/nodelease/answers.go", `(a.since.IsZero() || time.Since(a.since) < a.limit)`, `a.since.IsZero()`, cliOwn},
	{"cli: a command to copy ends with an escape", "cmd/nodelease/doctor.go", `if rest == "" {`, `if s == "" {`, cliOwn},
	{"cli: exec starts a program for a user who is gone", "cmd/nodelease/exec.go", `if n := started(); n != 0 {`, `if n := started(); n < 0 {`, cliOwn},
	{"cli: a printed stack cannot be deployed again", "cmd/nodelease/table_templates.go", `	AllowDeletion: true,`, `	AllowDeletion: false,`, cliOwn},
	{"cli: reap is silent about what someone else wrote", "cmd/nodelease/reap.go", `	b.Add(forged(g, r.Forged))
`, ``, cliOwn},
	{"cli: stats is silent about what someone else wrote", "cmd/nodelease/stats.go", `	b.Add(forged(g, s.Forged))
`, ``, cliOwn},
	{"cli: doctor replaces the policy of another fix", "cmd/nodelease/doctor_table.go", `crc32.ChecksumIEEE([]byte(policy))`, `crc32.ChecksumIEEE([]byte(d.table))`, cliOwn},
	{"cli: doctor deletes the replica of its own Region", "cmd/nodelease/doctor_table.go", `if name := aws.ToString(r.RegionName); name != own {`, `if name := aws.ToString(r.RegionName); name != "" || name != own {`, cliOwn},
	{"cli: a fixed node ID takes flags of a lease", "cmd/nodelease/fixed.go", `if leased.Lookup(f.Name) != nil ||`, `if leased.Lookup(f.Name) != nil && f.Name != "max-ttl" ||`, cliOwn},
	{"cli: reap hides what it freed if it fails later", "cmd/nodelease/reap.go", `if err != nil && len(r.Freed) == 0 {
				return err
			}
			if err == nil && !t.dry {
				client, table := store.Table()
				r.Cleared, err = discovery.Sweep(cmd.Context(), discovery.NewTable(client, table), g.pool)
			}`, `if err == nil && !t.dry {
				client, table := store.Table()
				r.Cleared, err = discovery.Sweep(cmd.Context(), discovery.NewTable(client, table), g.pool)
			}
			if err != nil {
				return err
			}`, cliOwn},
	{"cli: reap hides that forged items may not be noticed", "cmd/nodelease/reap.go", `if strings.HasPrefix(r.Message, "reap: ") {`, `if strings.HasPrefix(r.Message, "") {`, cliOwn},
	{"cli: two leases have one deadline file", "cmd/nodelease/exec.go", `file != "" && version != "" {`, `file != "" && version == file {`, cliOwn},
	{"cli: a raise that was cut off is silent", "cmd/nodelease/raise.go", `if c.Pool.Pool != "" {`, `if c.Pool.Pool == "" {`, cliOwn},
}
