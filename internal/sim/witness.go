package sim

import (
	"encoding/json"
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
	if in.Key["node_id"].N == "-1" {
		return // the pool's own item
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
	w.note(history.Event{Kind: history.Stamp, Who: p.number, Node: id.Node(), ID: int64(id), MS: id.Time().UnixMilli()})
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
