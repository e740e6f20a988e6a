package main

// The mutants of the API's edges: nil and zero values.
var edgeMutants = []mutant{
	{"a zero Generator is used", generator, `	} else { // no cost for the others: the zero Generator is not plain
		return 0, errNotNew
	}`, `	} else {
		tm = g.t.term.Load()
	}`, ids},
	{"a zero Generator draws", slow, `	if g.t == nil {
		return nil, 0, 0, errNotNew
	}
`, ``, ids},
	{"a zero Block draws", block, `	if g == nil || g.t == nil {
`, `	if g == nil && b.next > b.end {
`, ids},
	{"a nil pointer is a clock", timeline, `	if isNil(c) {`, `	if c == nil {`, ids},
	{"a nil listener is called", "pkg/cluster/config.go", `		if l == nil {`, `		if l == nil && i < 0 {`, tableOwn},
	{"a zero Agent is used", agent, `a == nil || a.done == nil }`, `false }`, leaseOwn},
	{"a zero on-demand agent is used", "pkg/lease/ondemand.go", `o == nil || o.done == nil }`, `false }`, leaseOwn},
	{"a nil pointer is a store", "pkg/lease/config.go", `case c.Store != nil && protocol.IsNil(c.Store):`, `case false:`, leaseOwn},
	{"a nil client is asked", "internal/protocol/argument.go", `	if IsNil(client) {`, `	if false {`, stores},
	{"a nil context is used", "internal/protocol/argument.go", `	if ctx == nil {`, `	if false {`, stores},
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
}
