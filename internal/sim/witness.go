package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/history"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// ops tells the writes apart by what their update expressions begin with. The
// witness reads the wire, not the code under test.
var ops = []struct {
	prefix string
	op     history.Op
}{
	{"SET version = ", history.Seed},
	{"SET holder = ", history.Claim},
	{"SET expires_at = ", history.Renew},
	{"SET reserved_until = :reserved_until REMOVE", history.Release},
	{"SET reserved_until = not_before REMOVE", history.Abandon},
	{"REMOVE holder, expires_at", history.Free},
	{"SET retired", history.Retire},
	{"REMOVE retired", history.Retire},
	{"SET reserved_until = :to", history.Raise},
	{"SET layout = ", history.Mark},
}

// witnessWrite tells the history of a write that was done.
func (w *World) witnessWrite(request, answer []byte) {
	type value struct{ S, N string }
	var in struct {
		UpdateExpression string
		Key              map[string]value
	}
	var out struct {
		Attributes map[string]json.RawMessage
	}
	if err := json.Unmarshal(request, &in); err != nil {
		w.fail(err)
		return
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		w.fail(err)
		return
	}
	if in.Key["node_id"].N == "-1" { // the pool's own item
		w.witnessWidths(out.Attributes["layouts"])
		return
	}
	text := func(name string) string {
		var v value
		_ = json.Unmarshal(out.Attributes[name], &v) // missing, or of another type: ""
		return v.S + v.N
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(text(name), 10, 64)
		return n
	}
	e := history.Event{
		Kind: history.Item, Node: int(number("node_id")), Who: taskNumber(text("task")), Held: text("holder") != "", Version: number("version"),
		Renewal: number("renewal"), NotBefore: number("not_before"), Expires: number("expires_at"), Until: number("reserved_until"),
	}
	for _, o := range ops {
		if strings.HasPrefix(in.UpdateExpression, o.prefix) {
			e.Op = o.op
			break
		}
	}
	if e.Op == "" {
		w.fail(fmt.Errorf("no known write: %s", in.UpdateExpression))
		return
	}
	w.note(e)
}

// A process is named in the table by its task.
func taskName(n int) string { return "t" + strconv.Itoa(n) }
func taskNumber(s string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(s, "t"))
	return n
}

// witnessID tells the history of an ID.
func (w *World) witnessID(p *process, id snowflake.ID) {
	node, at := id.Node(), id.Time()
	if w.Plan.Narrow {
		w.widths.Lock()
		parts := w.eras.Decompose(snowflake.Wide16(), id)
		w.made[id] = parts.Node
		w.widths.Unlock()
		node, at = parts.Node, parts.Time
	}
	w.note(history.Event{Kind: history.Stamp, Who: p.number, Node: node, ID: int64(id), MS: at.UnixMilli()})
}

// witnessWidths reads the history of widths in a pool's item. When it grows, the
// IDs that were made by then must be taken apart as before.
func (w *World) witnessWidths(attribute json.RawMessage) {
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
	w.eras = eras
	w.count(func(c *Counts) { c.Widths = len(eras) })
	for id, node := range w.made {
		if now := eras.Decompose(snowflake.Wide16(), id).Node; now != node {
			w.fail(fmt.Errorf("ID %d of node %d is node %d's by the history %+v", id, node, now, eras))
			return
		}
	}
}

// witnessBeliefs asks every process whether it believes to hold its number. All of
// it happens at one moment of virtual time. Those who have ceased to believe go
// first: nobody was asked at the moment when they did.
func (w *World) witnessBeliefs() {
	w.beliefs.Lock()
	defer w.beliefs.Unlock()
	var believers []history.Event
	for _, p := range w.processes() {
		e := history.Event{Kind: history.Unhold, Who: p.number}
		if l, err := p.agent.Lease(); err == nil && !p.isDead() {
			e = history.Event{Kind: history.Hold, Who: p.number, Node: l.NodeID, Version: l.Version}
		}
		if e == p.belief {
			continue
		}
		if p.belief.Kind == history.Hold {
			w.note(history.Event{Kind: history.Unhold, Who: p.number, Node: p.belief.Node})
		}
		p.belief = e
		if e.Kind == history.Hold {
			believers = append(believers, e)
		}
	}
	for _, e := range believers {
		w.note(e)
	}
}

// forget takes a process out of the history.
func (w *World) forget(p *process) {
	w.beliefs.Lock()
	defer w.beliefs.Unlock()
	if p.belief.Kind == history.Hold {
		w.note(history.Event{Kind: history.Unhold, Who: p.number, Node: p.belief.Node})
	}
	p.belief = history.Event{}
}

// note adds to the history. The first broken promise ends the world.
func (w *World) note(e history.Event) {
	e.At = time.Now().UnixMilli()
	if err := w.History.Add(e); err != nil {
		w.fail(err)
	}
}
