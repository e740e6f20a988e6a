package main

const (
	clusterOwn = "./pkg/cluster ./pkg/cluster/clustertest"
	tableFile  = "pkg/cluster/dynamocoordinator/table.go"
	tableBeat  = "pkg/cluster/dynamocoordinator/dynamocoordinator.go"
	tableNodes = "pkg/cluster/dynamocoordinator/nodes.go"
	tableKnown = "pkg/cluster/dynamocoordinator/known.go"
	digestFile = "pkg/cluster/dynamocoordinator/digest.go"
	changes    = "pkg/cluster/dynamocoordinator/changes.go"
	tableOwn   = "./pkg/cluster/dynamocoordinator ./pkg/cluster"
	pgFile     = "pkg/cluster/pgcoordinator/pgcoordinator.go"
	pgBeat     = "pkg/cluster/pgcoordinator/heartbeat.go"
	pgOwn      = "./pkg/cluster/pgcoordinator"
)

// The mutants of discovery's and the cluster's promises under faults.
var clusterMutants = []mutant{
	{"discovery: an answer in doubt counts for MaxAge", "pkg/discovery/resolve.go", `	if v.doubt.lasts > 0 {
		return min(v.doubt.lasts, maxAge)
	}
`, ``, discoveryOwn},
	{"discovery: logs under the registrar's lock", "pkg/discovery/registrar.go", `	r.told = err
	r.mu.Lock()
	defer r.mu.Unlock()
`, `	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.told == nil {
		r.dir.cfg.Logger.Warn("again")
	}
	r.told = err
`, discoveryOwn},
	{"discovery: a list without its pointer", "pkg/discovery/registrar.go", `	if err := point(ctx, r.dir.cfg.Store, r.dir.cfg.Pool, r.session.nodeID); err != nil {
		return err
	}
`, `	_ = ctx
`, discoveryOwn},
	{"discovery: a list in another's partition counts", "pkg/discovery/lists.go", `if r.NodeID/listsSpan == part {`, `if true || part == 0 {`, discoveryOwn},
	{"discovery: an empty list of somebody else is believed", "pkg/discovery/table.go", `":partition": str(partition)},
		}, protocol.Genuine)`, `":partition": str(partition)},
		})`, discoveryOwn},
	{"discovery: a write that somebody else answered is believed", "pkg/discovery/table.go", `FailureAllOld,
	}, protocol.Genuine)`, `FailureAllOld,
	})`, discoveryOwn},
	{"cluster: a list of somebody else is believed", tableFile, `":partition": str(partition)},
			}, protocol.Genuine)`, `":partition": str(partition)},
			})`, tableOwn},
	{"cluster: a heartbeat that somebody else answered counts", tableFile, `UpdateItem(ctx, in, protocol.Genuine)`, `UpdateItem(ctx, in)`, tableOwn},
	{"cluster: an item without a time ends each run of Expire", tableFile, `	if item[name] == nil {`, `	if false {`, tableOwn},
	{"cluster: an answer without the item is a refusal", tableFile, `	if len(out.Attributes) == 0 { // it`, `	if false { // it`, tableOwn},
	{"discovery: a lease that ran out while another group was read has ended", "pkg/discovery/shared.go", `for again := false; ; again = true {`, `for again := true; ; again = true {`, discoveryOwn + " world:cluster,corrupt,deploys,discovery,operators,outages,pauses,raises,sinks,steps,weather:2316:2"},
	{"discovery: a reader on its own believes others", "pkg/discovery/shared.go", `	if !d.cfg.Alone && age >= 0`, `	if age >= 0`, discoveryOwn},
	{"discovery: an answer in doubt is left for others", "pkg/discovery/shared.go", `!stored && !doubted`, `!stored && (true || !doubted)`, discoveryOwn},
	{"discovery: a group in doubt is not read again", "pkg/discovery/live.go", `age < d.cfg.MaxAge && in.lasts == 0`, `age < d.cfg.MaxAge && in.lasts >= 0`, discoveryOwn},
	{"discovery: doubt costs two reads a second", "pkg/discovery/shared.go", `d.lasts = min(2*before.lasts, longestDoubt)`, `d.lasts = againAfter`, discoveryOwn},
	{"discovery: old doubt hides new", "pkg/discovery/shared.go", `before.lasts > 0 && slices.Equal(before.nodes, d.nodes)`, `before.lasts > 0 && (true || slices.Equal(before.nodes, d.nodes))`, discoveryOwn},
	{"discovery: what a clock ahead left is never replaced", "pkg/discovery/shared.go", `Version: found.Version + 1, ReadAt`, `Version: at.UnixMilli(), ReadAt`, discoveryOwn},
	{"discovery: addresses are not checked when read", "pkg/discovery/record.go", `		return Address(*r.Address).check()
`, `		return nil
`, discoveryOwn},
	{"discovery: Leave fails with a context that has ended", "pkg/discovery/register.go", `	if ctx.Err() != nil {
		var cancel`, `	if false {
		var cancel`, discoveryOwn},
	{"cluster: a node looks before it is recorded", "pkg/cluster/session.go", `	if l.Metadata[metaSession] != n.now.self.SessionID {
		// Invariant (liveness): this asks for one renewal only. If something else has removed the
		// session from the lease, further ones would lack it, too, and follow each other at once.
		if n.nudged != n.now.self.SessionID {
			n.nudged = n.now.self.SessionID
			n.cfg.Agent.RenewNow()
		}
		return errUnrecorded
	}
`, ``, clusterOwn},
	{"cluster: a dropped session is in another claim", "pkg/cluster/session.go", `errors.Is(err, lease.ErrLost) {`, `err == nil && errors.Is(err, lease.ErrLost) {`, clusterOwn},
	{"cluster: a claim after a loss makes two sessions", "pkg/cluster/session.go", `begun := !n.times.recorded &&`, `begun := false &&`, clusterOwn},
	{"BeforeResume is not called before an early claim", "pkg/lease/metadata.go", `a.over == nil && a.term.Held(a`, `a.term.Held(a`, leaseOwn},
	{"cluster: a node goes back behind a version that it knows", "pkg/cluster/known.go", `return m.Version < n.highest[m.Key()].version`, `return false`, clusterOwn},
	{"cluster: a second node of an agent publishes nothing", "pkg/cluster/known.go", `max(n.revision+1, time.Now().UnixMilli())`, `n.revision + 1`, clusterOwn},
	{"cluster: a forgotten member publishes nothing", "pkg/cluster/node.go", `		n.published = nil //`, `		//`, clusterOwn},
	{"cluster: an earlier holder's publication counts", "pkg/cluster/known.go", `named && publisher < m.Version`, `named && publisher < 0`, clusterOwn},
	{"cluster: a node leads as soon as it starts", "pkg/cluster/leader.go", `now-n.times.since > n.cfg.Timeout &&`, `now > n.times.since &&`, clusterOwn},
	{"cluster: a node leads by an old look", "pkg/cluster/leader.go", `		now-n.times.looked <= n.trust() && n.silenceLocked() <= n.trust()`, `		now >= n.times.looked`, clusterOwn},
	{"cluster: a node leads without its lease", "pkg/cluster/leader.go", `	if n.cfg.Agent != nil {
		if _`, `	if false {
		if _`, clusterOwn},
	{"cluster: a dropped session still leads in its state", "pkg/cluster/leader.go", `	if n.seenBy != n.now.self.SessionID {`, `	if false {`, clusterOwn},
	{"cluster: own sessions whose answers were lost are another process's", "pkg/cluster/node.go", `own.Version+begun ||`, `own.Version+min(begun, 1) ||`, clusterOwn},
	{"cluster: a session that another one replaced goes on", "pkg/cluster/node.go", `if replaced && same {`, `if replaced && same && own.Version < 0 {`, clusterOwn},
	{"cluster: a read that lacks its reader counts", "pkg/cluster/node.go", `changed && !snap.has(sender)`, `changed && false`, clusterOwn},
	{"cluster: a late answer counts", "pkg/cluster/node.go", `!sender.Same(n.now.self) || now-sent > n.trust()`, `!sender.Same(n.now.self) || sent > now`, clusterOwn},
	{"cluster: a suspended machine was not silent", "pkg/cluster/node.go", `clock: snowflake.SystemClock(), turned`, `clock: struct{ clock }{snowflake.SystemClock()}, turned`, tableOwn},
	{"cluster: silence counts from the answer", "pkg/cluster/node.go", `n.times.heard = max(n.times.heard, sent)
	}`, `n.times.heard = now
	}
	sent = now`, clusterOwn},
	{"cluster: a failed run of Expire is repeated with each heartbeat", "pkg/cluster/node.go", `		n.expired = now - expireEvery + tellEvery
`, ``, clusterOwn},
	{"cluster: a continuing warning is logged with each heartbeat", "pkg/cluster/health.go", `before && now-last < tellEvery`, `before && now < last`, clusterOwn},
	{"cluster: memory records a dropped session", "pkg/cluster/clustertest/memory.go", `before.Same(m) && before.Heartbeat.Before(m.Heartbeat.Add(-b.Timeout)) ||`, ``, clusterOwn},
	{"cluster: memory records an older lease", "pkg/cluster/clustertest/memory.go", `m.NodeID != cluster.NoNodeID && m.Version < before.Version`, `false`, clusterOwn},
	{"cluster: the table records a dropped session", tableNodes, `session_id = :session AND heartbeat_at >= :oldest`, `session_id = :session AND :oldest <= :now`, tableOwn},
	{"cluster: a late heartbeat makes its session older", tableNodes, `(heartbeat_at <= :now OR`, `(heartbeat_at <= :now OR heartbeat_at > :now OR`, tableOwn},
	{"cluster: a late heartbeat replaces the next session", tableNodes, `BETWEEN :now AND :ahead`, `BETWEEN :ahead AND :ahead`, tableOwn},
	{"cluster: a late heartbeat replaces the next session of the same time", tableNodes, `NOT heartbeat_at BETWEEN :now AND :ahead`, `(heartbeat_at = :now OR NOT heartbeat_at BETWEEN :now AND :ahead)`, tableOwn},
	{"cluster: a session begins at the time of the previous one", "pkg/cluster/node.go", `n.at.Add(time.Millisecond), v.self`, `n.at, v.self`, clusterOwn},
	{"cluster: a heartbeat from the future stays", tableNodes, `OR heartbeat_at > :ahead)`, `OR :ahead < :now)`, tableOwn},
	{"cluster: a broken time keeps its name out", tableNodes, `NOT heartbeat_at BETWEEN :now AND :ahead`, `(heartbeat_at < :now OR heartbeat_at > :ahead)`, tableOwn},
	{"cluster: a broken version keeps its name out", tableNodes, `AND NOT version BETWEEN :zero AND :most`, `AND version BETWEEN :zero AND :most`, tableOwn},
	{"cluster: a record far ahead is a member", tableNodes, `!a.changes || now.Sub(a.since) > timeout {`, `now.Sub(a.since) > timeout {`, tableOwn},
	{"cluster: a record far ahead is a member after it changed once", tableNodes, `!a.changes || now.Sub(a.since) > timeout {`, `!a.changes {`, tableOwn},
	{"cluster: a slow clock sees no other member", tableNodes, `a = ahead{session, heartbeat, now, known}`, `a = ahead{session, heartbeat, now, false}`, tableOwn},
	{"cluster: a member that waits for its clock is none for a slower clock", tableNodes, `cluster.MaxClockBack+timeout)`, `cluster.MaxClockBack)`, tableOwn},
	{"cluster: a record far ahead is never forgotten", tableNodes, `now.Sub(a.since) < 2*cluster.MaxClockBack {`, `!a.since.IsZero() {`, tableOwn},
	{"cluster: a slow clock forgets live members", tableNodes, `|| a.heartbeat != heartbeat {`, `|| a.heartbeat < 0 {`, tableOwn},
	{"cluster: a broken publication stays", tableKnown, `NOT (version > :version OR (version = :version AND revision >= :revision))`, `attribute_not_exists(version) OR version < :version OR (version = :version AND revision < :revision)`, tableOwn},
	{"cluster: a clock that was an hour ahead is kept", "pkg/cluster/node.go", `n.confirmed.Sub(wall) > MaxClockBack+time.Second {`, `n.at.IsZero() {`, "./pkg/cluster"},
	{"cluster: a heartbeat that did not arrive sets the time back", "pkg/cluster/node.go", `n.confirmed.Sub(wall) >`, `n.at.Sub(wall) >`, "./pkg/cluster"},
	{"cluster: a clock that is set back drops its member", "pkg/cluster/node.go", `	if n.at.Before(wall) || n.confirmed.Sub(wall) > MaxClockBack+time.Second {`, `	if wall != n.at {`, clusterOwn},
	{"cluster: a refused heartbeat is no error", tableNodes, `	if item == nil && err == nil {
		return`, `	if false {
		return`, tableOwn},
	{"cluster: a heartbeat counts from its arrival", tableNodes, `":now": num(b.At.UnixMilli()), ":name"`, `":now": num(time.Now().UnixMilli()), ":name"`, tableOwn},
	{"cluster: names of the past end a cluster", tableFile, `return item["version"] != nil && item["session_id"] == nil`, `return item["version"] == nil && item["session_id"] == nil`, tableOwn},
	{"cluster: a failed node stays in its lease", "pkg/cluster/close.go", `SetMetadata(map[string]string{metaNode: "", metaSession: ""})`, `SetMetadata(map[string]string{"has_left": "1"})`, clusterOwn},
	{"cluster: a late refusal marks the lease of a closed node", "pkg/cluster/session.go", `	if n.err != nil {
		return nil
	}
`, ``, clusterOwn},
	{"cluster: a failed node waits for its next renewal", "pkg/cluster/close.go", `		if !errors.Is(err, ErrClosed) {
			n.cfg.Agent.RenewNow()
		}
`, ``, clusterOwn},
	{"cluster: no event when the leader steps down", "pkg/cluster/event.go", `leads && leader.Same(self)`, `leads && false`, clusterOwn},
	{"cluster: no event when the leader becomes unknown", "pkg/cluster/session.go", `	close(n.turned)
	n.turned = make(chan struct{})
`, ``, clusterOwn},
	{"cluster: a node has ended before its session is removed", "pkg/cluster/close.go", `	n.err = err
`, `	n.err = err
	close(n.done)
	close := func(chan struct{}) {}
`, clusterOwn},
	{"cluster: a removed session causes a storm of renewals", "pkg/cluster/session.go", `if n.nudged != n.now.self.SessionID {`, `if n.nudged != "-" {`, clusterOwn},
	{"cluster: listeners outlive the node", "pkg/cluster/close.go", `	close(n.done)
	n.cancel()`, `	close(n.done)`, clusterOwn},
	{"cluster: Goexit goes unnoticed", "pkg/cluster/listener.go", `err := errGoexit //`, `err := error(nil) //`, clusterOwn},
	{"cluster: retries do not back off", "pkg/cluster/node.go", `firstRetry<<min(n.failures, 20)`, `firstRetry`, clusterOwn},
	{"cluster: a failed read waits for the renewal", "pkg/cluster/node.go", `	case n.failures > 0:`, `	case n.failures > 0 && n.cfg.Agent == nil:`, clusterOwn},
	{"cluster: a node has a # in its cluster's name", "pkg/cluster/config.go", `if err := protocol.CheckPoolName(c.Cluster); err != nil {`, `if err := protocol.CheckPoolName(c.Cluster); err != nil && c.Cluster == "" {`, clusterOwn},
	{"cluster: a time-out of nanoseconds panics", "pkg/cluster/config.go", `if c.Timeout < minTimeout {`, `if c.Timeout < 0 {`, clusterOwn},
	{"cluster: metadata without a lease have no bound", "pkg/cluster/member.go", `	case text > most:`, `	case text < 0:`, clusterOwn},
	{"digest: content is not hashed", digestFile, `err != nil || sum(content) != hash`, `err != nil`, tableOwn},
	{"digest: content is unpacked without a limit", "pkg/cluster/dynamocoordinator/part.go", `io.LimitReader(z, maxPart+1)`, `z`, tableOwn},
	{"digest: members are not checked", changes, `m.Cluster+"#digest" != d.partition || m.Validate() != nil`, `m.Cluster+"#digest" != d.partition`, tableOwn},
	{"digest: each change has all read a part", digestFile, `fresh := advanced[name]`, `fresh := part{members: advanced[name].members}`, tableOwn},
	{"digest: changes count without their hash", digestFile, `			fresh := advanced[name]
			if fresh.hash != h {`, `			fresh := advanced[name]
			if fresh.members == nil {`, tableOwn},
	{"digest: changes have no bound", changes, `err == nil && len(packed) <= maxChanges {`, `err == nil && len(packed) > 0 {`, tableOwn},
	{"digest: a newcomer reads all parts", tableBeat, `			d.seed(members)`, ``, tableOwn},
	{"cluster: a look lacks a group", tableBeat, `	if err := context.Cause(ctx); err != nil {`, `	if err := context.Cause(ctx); err != nil && open == 0 {`, tableOwn},
	{"digest: a reader that is missing believes it", digestFile, `	if !d.has(b.Self) {`, `	if false {`, tableOwn},
	{"digest: the leader is not confirmed", digestFile, `!ok || !m.Same(leader) || m.Heartbeat.Before(now.Add(-b.Timeout))`, `now.IsZero() || m.NodeID < cluster.NoNodeID`, tableOwn},
	{"digest: a reader that would lead believes it", digestFile, `	if !ok || leader.Same(b.Self) {
		return !ok, nil
	}`, `	if !ok || leader.Same(b.Self) {
		return true, nil
	}`, tableOwn},
	{"digest: a keeper's clock decides for all", digestFile, `		d.agrees = !written.After(time.Now().Add(clockLimit)) &&`, `		d.agrees = true ||`, tableOwn},
	{"digest: a keeper's slow clock decides for all", digestFile, `(asked.IsZero() || !written.Before(`, `(asked.IsZero() || written.Before(time.Now()) || !written.Before(`, tableOwn},
	{"digest: a wrong clock is believed at the second read", digestFile, `	} else {
		d.copies = 1 //`, `	} else {
		d.agrees, d.copies = true, 1 //`, tableOwn},
	{"digest: a part that comes late replaces a newer one", digestFile, `NOT beat BETWEEN :next AND :most`, `NOT beat BETWEEN :most AND :most OR beat <= :next`, tableOwn},
	{"digest: a broken beat of item 0 stays", digestFile, `sent[":seen"] = d.broken`, `sent[":seen"] = num(d.beat)`, tableOwn},
	{"digest: a broken beat of a part stays", digestFile, `d.beat, d.lowest = 0, highBeat`, `d.beat = 0`, tableOwn},
	{"memory: a lease of an earlier pool stays", "pkg/cluster/clustertest/memory.go", `m.Version < before.Version && !before.Heartbeat.Before(late)`, `m.Version < before.Version || late.IsZero()`, "./pkg/cluster/clustertest"},
	{"memory: a publication of an earlier pool stays", "pkg/cluster/clustertest/memory.go", `if !ok || earlier ||`, `if !ok || earlier && false ||`, "./pkg/cluster/clustertest"},
	{"memory: an older revision of a publication replaces a newer one", "pkg/cluster/clustertest/memory.go", `now.version == m.Version && now.revision < revision`, `now.version == m.Version`, "./pkg/cluster/clustertest"},
	{"digest: a very high beat of a part stays", digestFile, `maxBeat = highBeat + 1<<40`, `maxBeat = 2 * highBeat`, tableOwn},
	{"digest: keepers count to the highest beat", digestFile, `n > 0 && n < maxBeat`, `n > 0 && n <= maxBeat`, tableOwn},
	{"digest: a broken beat of a copy stays", digestFile, `if written == nil { // as above`, `if written == nil && false {`, tableOwn},
	{"digest: one that cannot be written fails the heartbeat", tableBeat, `return cluster.Snapshot{Members: members, Warning: d.write(ctx, b, members, now)}, nil`, `return cluster.Snapshot{Members: members}, d.write(ctx, b, members, now)`, tableOwn},
	{"cluster: a late publication replaces a newer one", tableKnown, `NOT (version > :version OR (version = :version AND revision >= :revision))`, `NOT (version = :version AND revision >= :revision)`, tableOwn},
	{"cluster: known versions are never forgotten", tableNodes, `	return c.forgetKnown(ctx, clusterName, oldest)`, `	return nil`, tableOwn},
	{"cluster: what the living know is forgotten", tableKnown, `		if alive[text(item["member_key"])] {`, `		if false {`, tableOwn},
	{"cluster: waiters in a large cluster ask at each heartbeat", "pkg/cluster/known.go", `look = now + spread`, `look = now`, clusterOwn},
	{"cluster: a waiter asks beyond the limit", "pkg/cluster/known.go", `if v.state.Len() > MaxKnown {
			err`, `if false {
			err`, clusterOwn},
	{"postgres: a fleet runs Schema at once", pgFile, `SELECT pg_advisory_xact_lock(5278920123347); -- for`, `-- for`, pgOwn},
	{"postgres: the first heartbeat may arrive at any time", pgBeat, `	if v.now.IsZero() {`, `	if v.now.IsZero() {
		return nil, nil
	}
	if false {`, pgOwn},
	{"postgres: a session reads before it is recorded", pgBeat, `if err == nil && v.session != b.Self.SessionID {`, `if err == nil && v.session == "" && v.reading == nil {`, pgOwn},
	{"postgres: a dropped session is recorded", pgBeat, `WHERE NOT (m.session_id = excluded.session_id AND m.heartbeat < clock_timestamp() - $8::interval)`, `WHERE true`, pgOwn},
	{"postgres: an older lease's heartbeat is recorded", pgBeat, `AND NOT (excluded.node_id >= 0 AND excluded.version < m.version AND`, `AND NOT (false AND excluded.version < m.version AND`, pgOwn},
	{"postgres: an older lease is kept out forever", pgBeat, ` AND m.heartbeat >= clock_timestamp() - GREATEST($8::interval, $12::interval))`, ` AND $12::interval IS NOT NULL)`, pgOwn},
	{"postgres: changes are read from the latest transaction on", pgBeat, `txid_snapshot_xmin(`, `txid_snapshot_xmax(`, pgOwn},
	{"postgres: a row that no node writes is a member", pgBeat, `o.alive && o.Validate() == nil; o.alive`, `o.alive && o.key != ""; o.alive`, pgOwn},
	{"postgres: broken metadata ends a heartbeat", pgBeat, `o.alive = o.alive && json.Unmarshal(metadata, &o.Metadata) == nil`, `if o.alive && err == nil {
			err = json.Unmarshal(metadata, &o.Metadata)
		}`, pgOwn},
	{"postgres: broken known versions end a read", pgFile, `if json.Unmarshal(text, &known) == nil {`, `if err := json.Unmarshal(text, &known); err != nil {
			return err
		} else {`, pgOwn},
	{"postgres: nobody falls silent", pgBeat, `AND (SELECT since FROM now) > 0`, `AND false`, pgOwn},
	{"postgres: another session is no change", pgBeat, `WHEN (m.name, m.node_id, m.session_id, m.metadata) = (excluded.name, excluded.node_id, excluded.session_id, excluded.metadata)`, `WHEN (m.name, m.node_id, m.metadata) = (excluded.name, excluded.node_id, excluded.metadata)`, pgOwn},
	{"postgres: a member that was suspended reads changes alone", pgBeat, `AND $10 > horizon - $8::interval THEN`, `THEN`, pgOwn},
	{"postgres: another server's transactions are newer", pgBeat, `AND $9 <= cursor AND`, `AND`, pgOwn},
	{"postgres: the transactions of a server that was replaced count", pgBeat, `WHEN $13 = pg_postmaster_start_time()`, `WHEN $13 <= pg_postmaster_start_time() + interval '1 year'`, pgOwn},
	{"postgres: a late publication replaces a newer one", pgFile, `WHERE (k.version, k.revision) < (excluded.version, excluded.revision)`, `WHERE true`, pgOwn},
	{"postgres: a publication of an earlier pool stays", pgFile, `AND m.version = excluded.version)`, `AND false)`, pgOwn},
	{"postgres: a late publication of an earlier holder replaces a newer one", pgFile, `AND m.version = excluded.version)`, `)`, pgOwn},
	{"lease: RenewNow waits for the next renewal", "pkg/lease/grow.go", `	case <-a.nudged:
`, ``, leaseOwn},
}
