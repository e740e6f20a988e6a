package main

const discoveryOwn = "./pkg/discovery"

// The mutants of discovery: of its only write, of which entries count, and of the sweep.
var discoveryMutants = []mutant{
	{"discovery: a revision is written twice", "pkg/discovery/table.go", `AND revision >= :revision)`, `AND revision > :revision)`, discoveryOwn},
	{"discovery: an earlier holder replaces a later one", "pkg/discovery/table.go", `NOT (version > :version OR (`, `NOT (:version < :version OR (`, discoveryOwn},
	{"discovery: a dead holder's late write lands", "pkg/discovery/record.go", `Version: version + 1}`, `Version: version}`, discoveryOwn},
	{"discovery: an entry counts for any holder of the node ID", "pkg/discovery/live.go", `r.Holder != "" && l.session == r.Holder && l.version == r.Version`, `r.Holder != "" && l.session != ""`, discoveryOwn},
	{"discovery: an entry outlives its lease", "pkg/discovery/resolve.go", `until.After(now)`, `until.After(now.Add(-time.Hour)) && !until.IsZero()`, discoveryOwn},
	{"discovery: a lease that seems to end is not read again", "pkg/discovery/live.go", `ends.After(at) && !ends.After(now)`, `ends.After(at) && now.IsZero()`, discoveryOwn},
	{"discovery: what others read is believed of newer entries", "pkg/discovery/live.go", `r.Version > h[r.NodeID].version`, `r.Version < 0`, discoveryOwn},
	{"discovery: what was read too early is left for others", "pkg/discovery/shared.go", `h[e.NodeID].version < e.Version`, `e.Version < 0`, discoveryOwn},
	{"discovery: what others read with a clock ahead stays good", "pkg/discovery/shared.go", `age >= 0 && age < d.cfg.MaxAge`, `age < d.cfg.MaxAge`, discoveryOwn},
	{"discovery: entries before their list", "pkg/discovery/registrar.go", `r.besideList(r.list(wanted))`, `r.besideList(nil)`, discoveryOwn},
	{"discovery: the list forgets what is not taken back yet", "pkg/discovery/registrar.go", `	for _, text := range old.Places {`, `	for _, text := range old.Places[:0] {`, discoveryOwn},
	{"discovery: an agent of another pool registers", "pkg/discovery/directory.go", `case agent.Pool() != d.cfg.Pool:`, `case agent.Pool() == "":`, discoveryOwn},
	{"discovery: the list names what was withdrawn", "pkg/discovery/registrar.go", `len(r.listed) > len(all)) {`, `len(wanted) == 0) {`, discoveryOwn},
	{"discovery: a list in doubt counts as known", "pkg/discovery/registrar.go", `	r.listed = nil
`, ``, discoveryOwn},
	{"discovery: a list is too long", "pkg/discovery/registrar.go", `if len(r.places(wanted)) > maxOffers {`, `if len(r.places(wanted)) > 2*maxOffers {`, discoveryOwn},
	{"discovery: a corrupt entry keeps its node ID from registering", "pkg/discovery/registrar.go", `(newer.now.Corrupt != nil || newer`, `(false || newer`, discoveryOwn},
	{"discovery: an entry with a version that is too high keeps its node ID from registering", "pkg/discovery/registrar.go", `newer.now.Version > r.session.version && r.held()`, `false`, discoveryOwn},
	{"discovery: a broken entry keeps its node ID from other places", "pkg/discovery/registrar.go", `				kept[p] = err
				continue`, `				return nil, err`, discoveryOwn},
	{"discovery: a broken list keeps its node ID from registering", "pkg/discovery/registrar.go", `r.besideList(r.list(wanted))`, `r.list(wanted)`, discoveryOwn},
	{"discovery: a broken list keeps its node ID from leaving", "pkg/discovery/registrar.go", `r.besideList(r.writeList(all))`, `r.writeList(all)`, discoveryOwn},
	{"discovery: a broken pointer keeps lists from being written", "pkg/discovery/lists.go", ` || now.Corrupt != nil`, ``, discoveryOwn},
	{"discovery: a broken list is never written again", "pkg/discovery/registrar.go", `r.listed, r.unlisted = all, false`, `r.listed = all`, discoveryOwn},
	{"discovery: a broken entry keeps other calls waiting", "pkg/discovery/registrar.go", `done = done && offered[p] == nil`, `done = done && p == ""`, discoveryOwn},
	{"discovery: a holder counts on from a revision that is too high", "pkg/discovery/table.go", `max(r.Version, r.Revision) > maxShared`, `max(r.Version, r.Revision) < 0`, discoveryOwn},
	{"discovery: a corrupt entry makes a list too long", "pkg/discovery/registrar.go", `!r.broken[p] || len(wanted)+len(r.broken) <= maxOffers {`, `p != "" {`, discoveryOwn},
	{"discovery: an entry in doubt is not taken back", "pkg/discovery/registrar.go", `			r.written[p] = nil
			if err`, `			if err`, discoveryOwn},
	{"discovery: the sweep takes a lease that was read too early", "pkg/discovery/sweep.go", `l.version > r.Version ||`, `l.version != r.Version ||`, discoveryOwn},
	{"discovery: the sweep takes who lives", "pkg/discovery/sweep.go", `&& l.session != r.Holder)`, `)`, discoveryOwn},
	{"discovery: the sweep follows a corrupt list", "pkg/discovery/place.go", `return p, err == nil && string(p) == text && text != ""`, `return place(text), text != "" || p != "" || err != nil`, discoveryOwn},
	{"discovery: a corrupt entry ends the sweep", "pkg/discovery/sweep.go", `case err != nil && !errors.As(err, &newer):`, `case err != nil && (newer == nil || !errors.As(err, &newer)):`, discoveryOwn},
	{"discovery: the sweep says nothing of a corrupt entry", "pkg/discovery/sweep.go", `if err == nil && now.Corrupt != nil {`, `if false {`, discoveryOwn},
	{"discovery: a late page ends a lease", "pkg/discovery/live.go", `return g.strong || !g.unaware(entries)`, `return g.strong || true || !g.unaware(entries)`, discoveryOwn},
	{"discovery: a late page ends a lease soon", "pkg/discovery/live.go", `time.Now().Add(againAfter), doubt{}))`, `time.Now(), doubt{}))`, discoveryOwn},
	{"discovery: a late page lacks a new lease", "pkg/discovery/live.go", `g.strong || !g.unaware(entries) && known`, `g.strong || known`, discoveryOwn},
	{"discovery: a late page read for another place ends a lease", "pkg/discovery/live.go", `d.cfg.MaxAge) && g.shows(entries, known) ||`, `d.cfg.MaxAge) ||`, discoveryOwn},
	{"discovery: a dead holder costs a strong read each time", "pkg/discovery/shared.go", `before.doubt); err`, `doubt{}); err`, discoveryOwn},
	{"discovery: an old answer of another reader ends a lease", "pkg/discovery/resolve.go", `return age < soon && now.Sub(v.at) < soon`, `return age < soon`, discoveryOwn},
	{"discovery: a lease that ends while its answer is shared is left out", "pkg/discovery/shared.go", `if again || !v`, `if again || stored || !v`, discoveryOwn},
	{"discovery: a lease that ends while its answer is shared counts", "pkg/discovery/shared.go", `		v.decided = time.Now()
		if again`, `		if again`, discoveryOwn},
	{"discovery: a canceled reader stops sharing", "pkg/discovery/shared.go", `!errors.Is(ctx.Err(), context.Canceled)`, `!errors.Is(nil, context.Canceled)`, discoveryOwn},
	{"discovery: a canceled read counts against the store", "pkg/discovery/cached.go", `		if ctx.Err() == nil { // otherwise`, `		if true { // otherwise`, discoveryOwn},
}
