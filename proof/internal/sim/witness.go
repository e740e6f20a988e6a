package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// ops identifies writes by the beginning of their update expressions, because the witness
// uses only the requests, not the code under test.
var ops = []struct {
	prefix string
	op     history.Op
}{
	{"SET version = ", history.Seed},
	{"SET holder = ", history.Claim},
	{"SET expires_at = ", history.Renew},
	{"SET reserved_until = :reserved_until, previous", history.Release},
	{"SET reserved_until = not_before REMOVE", history.Abandon},
	{"SET previous = ", history.Free}, // or Reap: see witnessWrite
	{"SET retired", history.Retire},
	{"SET resize = ", history.Retire},
	{"SET reserved_until = :to", history.Raise},
	{"SET widen_try = ", history.Mark},
}

// witnessWrite adds a write that was applied to the history, and judges it.
func (w *World) witnessWrite(request, answer []byte) {
	in, item := members(request), members(members(answer)["Attributes"])
	update, key := unquoted(in["UpdateExpression"]), members(in["Key"])
	if partition := text(key["pool_group"]); partition == poolName { // the pool's own item
		w.witnessWidths(item["eras"], text(item["widen_try"]))
		w.judgeResize(update, item, strings.HasPrefix(update, "SET pool_size") && w.doneBefore(request))
		return
	} else if strings.HasPrefix(partition, poolName+"#card#") {
		w.judgeCard(partition, item)
		return
	} else if group := strings.TrimPrefix(partition, poolName+"#"); strings.Trim(group, "0123456789") != "" || text(key["node_id"]) == "-1" {
		return // an item of the cluster, of discovery or of the reaper, or a copy of the pool's item
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(text(item[name]), 10, 64)
		return n
	}
	e := history.Event{
		Kind: history.Item, Node: int(number("node_id")), Who: taskNumber(text(item["task"])), Held: text(item["holder"]) != "", Version: number("version"),
		Renewal: number("renewal"), NotBefore: number("not_before"), Expires: number("expires_at"), Until: number("reserved_until"),
	}
	for _, o := range ops {
		if strings.HasPrefix(update, o.prefix) {
			e.Op = o.op
			break
		}
	}
	if e.Op == "" {
		w.fail(fmt.Errorf("no known write: %s", update))
		return
	}
	if e.Op == history.Free && strings.Contains(unquoted(in["ConditionExpression"]), "renewal = ") {
		e.Op = history.Reap
	}
	e.TTL = time.Duration(number("lease_ms")) * time.Millisecond
	e.Retired = item["retired"] != nil
	w.raw[e.Node] = item
	before := w.items[e.Node]
	if e.Op == history.Retire && w.doneBefore(request) && before.Retired != e.Retired {
		w.fail(fmt.Errorf("a replayed %s changed node %d", update, e.Node))
	}
	w.items[e.Node] = e
	w.note(e)
	w.countGrown(e, before)
	switch e.Op {
	case history.Reap:
		w.judgeReap(e, before)
	case history.Renew, history.Claim:
		if e.Op == history.Claim && before.Until-before.NotBefore >= (10*time.Minute).Milliseconds() {
			w.count(func(c *Counts) { c.Rested++ })
		}
		if e.Op == history.Claim {
			w.judgeClaim(e, before)
		}
		w.renewed(e)
		if e.Op == history.Renew {
			w.judgeExpiry(e, before)
			w.judgeSession(e, item["metadata"])
		}
	}
}

// hasGrown reports whether an item contains a lease whose TTL has grown since the claim.
func (w *World) hasGrown(e history.Event) bool { return e.Held && e.TTL > w.claimed[e.Node] }

// countGrown counts the events of leases that have grown.
func (w *World) countGrown(e, before history.Event) {
	grown := w.hasGrown(before)
	if e.Op == history.Claim {
		w.claimed[e.Node] = e.TTL
	}
	if !grown {
		return
	}
	what := map[history.Op]string{history.Free: "forced", history.Reap: "reaped", history.Raise: "raised", history.Claim: "taken over"}[e.Op]
	if e.Op == history.Retire && e.Retired && !before.Retired {
		what = "retired"
	}
	if what != "" {
		w.count(func(c *Counts) { c.OnGrown[what]++ })
	}
}

// countShrink counts a change of size if the pool becomes smaller while one of its leases
// has grown.
func (w *World) countShrink(from, to string) {
	size := func(attribute string) (n int) {
		var v struct {
			N int `json:",string"`
		}
		_ = json.Unmarshal([]byte(attribute), &v)
		return v.N
	}
	if size(to) >= size(from) {
		return
	}
	for _, e := range w.items {
		if w.hasGrown(e) {
			w.count(func(c *Counts) { c.OnGrown["shrunk"]++ })
			return
		}
	}
}

// renewed records that the lease of an item's holder was written.
func (w *World) renewed(e history.Event) {
	for _, p := range w.processes() {
		if node, version := p.holding(); node == e.Node && version == e.Version {
			p.confirm()
		}
	}
}

// taskName returns the name of a process in the table, and taskNumber the number of the
// process with a name.
func taskName(n int) string { return "t" + strconv.Itoa(n) }
func taskNumber(s string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(s, "t"))
	return n
}

// witnessID adds an ID to the history, and judges it.
func (w *World) witnessID(p *process, id snowflake.ID) {
	parts := w.layout.Decompose(id)
	if w.Plan.Narrow {
		w.widths.Lock()
		parts = w.eras.Decompose(w.layout, id)
		w.made[id] = parts.Node
		w.widths.Unlock()
	}
	w.judgeStamp(p, parts.Time)
	p.stamps(parts.Node, parts.Time.UnixMilli())
	w.note(history.Event{Kind: history.Stamp, Who: p.number, Node: parts.Node, ID: int64(id), MS: parts.Time.UnixMilli()})
}

// witnessWidths reads the eras in a pool's item. When an era is added, all IDs that were
// made before must still be decomposed into the same node IDs.
func (w *World) witnessWidths(attribute json.RawMessage, try string) {
	var list struct {
		L []struct {
			M struct {
				From     struct{ N string } `json:"from"`
				NodeBits struct{ N string } `json:"node_bits"`
			}
		}
	}
	if len(attribute) == 0 {
		return
	}
	if err := json.Unmarshal(attribute, &list); err != nil {
		w.fail(err)
		return
	}
	var eras snowflake.Eras
	for _, l := range list.L {
		from, wrong := strconv.ParseInt(l.M.From.N, 10, 64)
		bits, wrong2 := strconv.Atoi(l.M.NodeBits.N)
		if err := errors.Join(wrong, wrong2); err != nil {
			w.fail(err)
			return
		}
		eras = append(eras, snowflake.Era{From: time.UnixMilli(from), NodeBits: bits})
	}
	w.widths.Lock()
	defer w.widths.Unlock()
	if len(eras) == len(w.eras) {
		return
	}
	if len(w.eras) > 0 {
		w.judgeMarks(try)
	}
	w.eras = eras
	w.count(func(c *Counts) { c.Widths = len(eras) })
	for id, node := range w.made {
		if now := eras.Decompose(w.layout, id).Node; now != node {
			w.fail(fmt.Errorf("ID %d of node %d is node %d's by the history %+v", id, node, now, eras))
			return
		}
	}
}

// witnessBeliefs asks every process whether it believes that it holds its node ID, all at
// one moment of virtual time. Processes that no longer believe so are recorded first,
// because they stopped believing at an earlier moment, at which nobody asked them.
func (w *World) witnessBeliefs() {
	w.beliefs.Lock()
	defer w.beliefs.Unlock()
	var believers []history.Event
	for _, p := range w.processes() {
		e := history.Event{Kind: history.Unhold, Who: p.number}
		if l, err := p.agent.Lease(); err == nil && !p.isDead() {
			e = history.Event{Kind: history.Hold, Who: p.number, Node: l.NodeID, Version: l.Version}
			p.held = e
		}
		if e == p.belief {
			continue
		}
		if p.belief.Kind == history.Hold {
			w.note(history.Event{Kind: history.Unhold, Who: p.number, Node: p.belief.Node})
		}
		p.belief, p.since = e, time.Now()
		if e.Kind == history.Hold {
			believers = append(believers, e)
		}
	}
	for _, e := range believers {
		w.note(e)
	}
}

// forget records that a process that has ended no longer believes that it holds a node
// ID.
func (w *World) forget(p *process) {
	w.beliefs.Lock()
	defer w.beliefs.Unlock()
	if p.belief.Kind == history.Hold {
		w.note(history.Event{Kind: history.Unhold, Who: p.number, Node: p.belief.Node})
	}
	p.belief = history.Event{}
}

// note adds an event to the history. The first broken promise ends the world.
func (w *World) note(e history.Event) {
	e.At = time.Now().UnixMilli()
	if err := w.History.Add(e); err != nil {
		w.fail(err)
	}
}
