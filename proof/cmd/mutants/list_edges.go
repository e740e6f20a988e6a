package main

// The mutants of the API's edges: nil and zero values, canceled calls.
var edgeMutants = []mutant{
	{"a zero Generator is used", generator, `	} else { // no cost for the others: the zero Generator is not plain
		return 0, errNotNew
	}`, `	} else {
		tm = g.t.term.Load()
	}`, ids},
	{"a nil Generator is used", generator, `	if g == nil {
		return 0, errNotNew
	}
	var tm`, `	var tm`, ids},
	{"a zero Generator draws", slow, `	if g == nil || g.t == nil {
		return nil, 0, 0, errNotNew
	}
`, ``, ids},
	{"a zero Block draws", block, `	if b == nil || b.g == nil || b.g.t == nil {
`, `	if b == nil {
`, ids},
	{"a nil Block is used", block, `	if b != nil && b.next < b.end {`, `	if b.next < b.end {`, ids},
	{"a nil Timeline is used", timeline, `t == nil || t.clock == nil }`, `t.clock == nil }`, ids},
	{"a zero Timeline is used", timeline, `t == nil || t.clock == nil }`, `t == nil }`, ids},
	{"a zero Clock is read", "pkg/lease/leasetest/clock.go", `	if c == nil || c.Clock == nil {`, `	if c == nil {`, leaseOwn},
	{"a nil pointer is a clock", timeline, `	if isNil(c) {`, `	if c == nil {`, ids},
	{"a nil listener is called", "pkg/cluster/config.go", `		if l == nil {`, `		if l == nil && i < 0 {`, tableOwn},
	{"a zero Agent is used", agent, `a == nil || a.done == nil }`, `false }`, leaseOwn},
	{"a zero on-demand agent is used", "pkg/lease/ondemand.go", `o == nil || o.done == nil }`, `false }`, leaseOwn},
	{"a nil pointer is a store", "pkg/lease/config.go", `case c.Store != nil && protocol.IsNil(c.Store):`, `case false:`, leaseOwn},
	{"a nil client is asked", "internal/protocol/argument.go", `	if IsNil(client) {`, `	if false {`, stores},
	{"a nil context is used", "internal/protocol/argument.go", `	if ctx == nil {`, `	if false {`, stores},
	{"a nil Pool is used", "pkg/lease/leasepool/pool.go", `	if p == nil || protocol.IsNil(p.store) {`, `	if false {`, poolOwn},
	{"a pool without a store asks it", "pkg/lease/leasepool/pool.go", `	if protocol.IsNil(s) {`, `	if false {`, poolOwn},
	{"a zero Directory is used", "pkg/discovery/directory.go", `d == nil || d.lists == nil }`, `false }`, discoveryOwn},
	{"a nil agent registers", "pkg/discovery/directory.go", `case agent.Timeline() == nil:`, `case false:`, discoveryOwn},
	{"a nil offer is registered", "pkg/discovery/register.go", `		if o == nil {
			errs = append(errs, errNoOffer)
			continue
		}
		p, err := o.where()
		a := o.address()`, `		p, err := o.where()
		a := o.address()`, discoveryOwn},
	{"a zero cluster node is used", "pkg/cluster/node.go", `n == nil || n.done == nil }`, `false }`, tableOwn},
	{"a publication waits for another one without end", "pkg/cluster/known.go", `	case <-ctx.Done():
		return context.Cause(ctx)`, `	case <-context.Background().Done():
		return context.Cause(ctx)`, "./pkg/cluster"},
	{"a canceled start of a cluster node stays on the lease", "pkg/cluster/node.go", `cfg.Name, err, failed), n.Close())`, `cfg.Name, err, failed), nil)`, "./pkg/cluster"},
	{"an ID waits for longer than its invocation", inLambda, `ids.NextContext(one)`, `ids.Next()`, lambdaOwn},
	{"a wait for the clock is checked once", inLambda, `		one, stop := context.WithTimeout(ctx, checkAgain)`, `		one, stop := context.WithCancel(ctx)`, lambdaOwn},
	{"a watch yields after the end of its context", "pkg/discovery/resolve.go", `			if ctx.Err() != nil { // the read may have succeeded all the same
				return
			}
`, ``, discoveryOwn},
	{"a heartbeat in PostgreSQL waits for another one without end", pgBeat, `	case <-ctx.Done():
		return cluster.Snapshot{}, failed`, `	case <-context.Background().Done():
		return cluster.Snapshot{}, failed`, pgOwn},
	{"the end of a canceled statement has no reason", pgFile, `!errors.Is(err, ended) {`, `false {`, pgOwn},
	{"a late heartbeat in PostgreSQL revives its session", pgBeat, `		AND ($11::timestamptz IS NULL OR clock_timestamp() <= $11)`, `		AND ($11::timestamptz IS NULL OR true)`, pgOwn},
	{"a heartbeat in PostgreSQL is late by a clock that was set", pgBeat, `own < 0 && known {`, `own < 0 && known && false {`, pgOwn},
}
