package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/pkg/discovery"
)

const service = "orders"

// entry is a process's registration.
type entry struct {
	holder string // the session of the lease at the registration
	since  time.Time
}

// discover registers the process's service and looks for the others, until ctx ends.
func (p *process) discover(ctx context.Context) {
	maxAge := []time.Duration{0, 2 * time.Second, 40 * time.Second}[p.Plan.Seed%3]
	dir, err := discovery.New(discovery.Config{Pool: poolName, Store: discovery.NewTable(clientOf(ctx), tableName), MaxAge: maxAge, Logger: p.logger()})
	if err != nil {
		p.World.fail(err)
		return
	}
	lookup, err := dir.Service(service)
	if err != nil {
		p.World.fail(err)
		return
	}
	here := discovery.Service{Name: service, Address: discovery.Address{Host: p.host, Port: 80}}
	if dir.Register(ctx, p.agent, here) == nil {
		if l, err := p.agent.Lease(); err == nil {
			p.entry.Store(&entry{l.Holder, time.Now()})
		}
	}
	for sleep(ctx, p.upTo(10*time.Second)) == nil {
		asked := time.Now()
		list, err := lookup.Resolve(ctx)
		if err == nil && !p.isDead() {
			p.World.count(func(c *Counts) { c.Resolved++ })
			p.judgeResolved(list, time.Since(asked))
		}
	}
	p.entry.Store(nil)
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = dir.Leave(leave, p.agent) // if this fails, the entry ends with the lease
}

// judgeResolved checks that a result without an error contains every process that is
// registered and has no troubles, even after an outage. Some processes are not judged. A
// process whose lease was freed by force believes that it holds its lease until it notices,
// but is no longer found. A process with a copy may be found at the copy's address.
func (p *process) judgeResolved(list []discovery.Instance, took time.Duration) {
	const soon = 8 * time.Second
	if p.Plan.Wild || took > time.Second || p.calmFor() < soon {
		return
	}
	there := map[int]int64{}
	for _, i := range list {
		there[i.NodeID] = i.Version
	}
	for _, q := range p.World.processes() {
		e := q.entry.Load()
		node, version := q.holding()
		// A new entry is found after MaxAge, which is up to 40 s. An entry that has become
		// valid again is found at once.
		if e == nil || time.Since(e.since) < time.Minute || q.beliefFor() < soon || q.calmFor() < soon || q.isDead() || q.copyOf != nil || q.hadCopy.Load() {
			continue
		}
		l, err := q.agent.Lease()
		if err == nil && e.holder == l.Holder && there[node] != version && text(p.network.item(node)["holder"]) == l.Holder {
			p.World.fail(fmt.Errorf("process %d finds %d instances and no error, and not process %d, which has held version %d of node %d for %v",
				p.number, len(list), q.number, version, node, q.beliefFor()))
		}
	}
}

// poison moves the time in the result that a reader stores for others an hour ahead, if the
// clock of the reader's machine is an hour ahead. Package discovery does not do so by itself
// here, since it reads the real machine's clock and not the simulated one.
func (p *process) poison(r *http.Request) {
	if !p.Plan.has("glitch") || p.clock.off() < 50*time.Minute || r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.UpdateItem" {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var in map[string]json.RawMessage
	var values map[string]map[string]json.RawMessage
	if bytes.Contains(body, []byte("#svc#")) && bytes.Contains(body, []byte(`"-1"`)) &&
		json.Unmarshal(body, &in) == nil && json.Unmarshal(in["ExpressionAttributeValues"], &values) == nil {
		for _, name := range []string{":version", ":read_at"} {
			var at string
			_ = json.Unmarshal(values[name]["N"], &at)
			if ms, err := strconv.ParseInt(at, 10, 64); err == nil && ms > 1e12 { // the number is a time
				body = bytes.ReplaceAll(body, []byte(at), []byte(strconv.FormatInt(ms+time.Hour.Milliseconds(), 10)))
				p.World.count(func(c *Counts) { c.Poisoned++ })
			}
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// mostRefused is how many readers in a row may be refused by a stored result whose version
// is a time in the future.
const mostRefused = 20

// judgeShared checks that a result that was stored with a wrong clock does not prevent other
// readers from storing their results.
func (w *World) judgeShared(request, answer []byte, refused bool) {
	if !bytes.Contains(request, []byte("#svc#")) {
		return
	}
	var in struct {
		Key                       map[string]struct{ S, N string }
		ExpressionAttributeValues map[string]struct{ N string }
	}
	if json.Unmarshal(request, &in) != nil || in.Key["node_id"].N != "-1" || !strings.Contains(in.Key["pool_group"].S, "#svc#") {
		return
	}
	var out struct {
		Item map[string]struct{ N string }
	}
	_ = json.Unmarshal(answer, &out) // only a refusal contains an item
	stored, _ := strconv.ParseInt(out.Item["version"].N, 10, 64)
	if !refused || time.UnixMilli(stored).Before(time.Now().Add(time.Minute)) {
		w.refused = 0
		return
	}
	if w.refused++; w.refused > mostRefused {
		w.fail(fmt.Errorf("%d readers in a row could not leave what they found: a wrong clock's record is of %v from now", w.refused, time.Until(time.UnixMilli(stored)).Round(time.Second)))
	}
}
