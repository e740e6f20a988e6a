package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Copies of running processes: of a virtual machine's memory, or of a process that was
// checkpointed. No process can be copied inside of this one, so a copy is a process
// that starts in no time at all, while its way to the database answers what makes it
// believe all that the original believes: it claims the original's node ID, and is told
// the item that the original's last renewal left. Its clocks show, while it starts, when
// that renewal was sent. From then on the session that it believes to be, and the
// original's, are exchanged on its wire, and its renewals are counted from where the
// original's were.
//
// Dice: the original and a copy with the same dice renew in step, each time; with other
// dice, they do not.

// origin is the original of a copy.
type origin struct {
	node    int
	item    map[string]json.RawMessage // as the original's last renewal left it
	session string                     // of the original
	version string
	renewal int64  // the original's last one
	mine    string // that the copy believes to be; "" before it has claimed
	born    atomic.Bool
}

// copies copies a process now and then, until ctx ends.
func (w *World) copies(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Plan.Seed, 9))
	for sleep(ctx, time.Duration(r.Int64N(int64(6*time.Minute)))) == nil {
		var alone []*process
		for _, p := range w.processes() {
			if p.copyOf == nil && p.pair.Load() == nil && !p.isDead() {
				alone = append(alone, p)
			}
		}
		if len(alone) > 0 {
			alone[r.IntN(len(alone))].copyNext.Store(true) // with its next renewal
		}
	}
}

// copied makes a copy of a process that has heard of a renewal at this moment.
func (p *process) copied(l lease.Lease) {
	w := p.World
	m := w.newMachine()
	m.clock = p.clock.copy()
	lag := p.clock.wall().Sub(l.ExpiresAt.Add(-l.TTL))
	item := w.network.item(l.NodeID)
	now := l.ExpiresAt.Add(-l.TTL) // what the copy claims must be what the original has asked for
	if lag < 0 || lag > 2*time.Second || text(item["holder"]) != l.Holder || text(item["renewal"]) != strconv.FormatInt(l.Renewal, 10) ||
		!l.ReservedUntil.Equal(now.Add(max(p.release.Reserve, l.TTL+p.claimGuard()))) {
		return // more has happened since, or more was asked for before
	}
	c := w.newProcess(m)
	c.task, c.release, c.copyOf, c.misfit = p.task, p.release, p, false
	c.origin = &origin{node: l.NodeID, item: item, session: l.Holder, version: strconv.FormatInt(l.Version, 10), renewal: l.Renewal}
	c.lag.Store(int64(lag))
	if m.intN(2) == 0 {
		same := &pair{}
		p.pair.Store(same)
		c.pair.Store(same)
	}
	w.note(history.Event{Kind: history.Copy, Who: c.number, Of: p.number, Node: l.NodeID, Version: l.Version, Until: l.ReservedUntil.UnixMilli()})
	w.background.Go(func() {
		ctx, cancel := context.WithTimeout(w.troubles, 30*time.Minute)
		defer cancel()
		defer p.pair.Store(nil)
		c.liveOn(ctx)
	})
}

// liveOn is a copy's life.
func (p *process) liveOn(stopping context.Context) {
	client := p.client()
	cfg := p.config(client)
	cfg.Wait, cfg.Metadata = 0, nil
	a, err := lease.Start(stopping, cfg)
	p.origin.born.Store(true)
	p.lag.Store(0)
	// A claim that reads a clock later than the original did is not what the original sent.
	if err != nil && stopping.Err() == nil && !p.clock.wasMoved() && !p.stopped.Load() {
		p.World.fail(fmt.Errorf("process %d is no copy: %w", p.number, err))
	}
	if err != nil {
		return
	}
	p.World.count(func(c *Counts) { c.Copies++ })
	p.serve(stopping, context.WithoutCancel(stopping), client, a)
}

// translate answers what a copy asks while it starts, and exchanges sessions after it.
func (p *process) translate(r *http.Request) (res *http.Response, done bool, err error) {
	o := p.origin
	if o == nil || r.Body == nil {
		return nil, false, nil
	}
	c, err := newCall(r)
	if err != nil {
		return nil, true, err
	}
	if o.born.Load() {
		body := o.asOriginal(c.body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return nil, false, nil
	}
	a := newAnswer()
	if c.writes() {
		a.body = o.claim(c.body)
	} else {
		a.body = o.narrow(p.network.do(c).body)
	}
	a.header = http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"COPY"}, "X-Amz-Crc32": {checksum(a.body)}}
	return a.response(r, false), true, nil
}

// claim answers the copy's claim with the original's item.
func (o *origin) claim(body []byte) []byte {
	var in struct {
		ExpressionAttributeValues map[string]struct{ S string }
	}
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	o.mine = in.ExpressionAttributeValues[":session"].S
	answer, err := json.Marshal(map[string]any{"Attributes": o.item})
	if err != nil {
		return nil
	}
	return o.asCopy(answer)
}

// asOriginal is a request of the copy's as the original would send it.
func (o *origin) asOriginal(body []byte) []byte {
	var in, values map[string]json.RawMessage
	if o.mine == "" || !bytes.Contains(body, []byte(o.mine)) {
		return body
	}
	if json.Unmarshal(body, &in) == nil && json.Unmarshal(in["ExpressionAttributeValues"], &values) == nil && text(values[":version"]) == o.version {
		body = o.count(in, "ExpressionAttributeValues", ":renewal", o.renewal)
	}
	return bytes.ReplaceAll(body, []byte(o.mine), []byte(o.session))
}

// asCopy is an answer as the copy is to see it.
func (o *origin) asCopy(body []byte) []byte {
	var out, item map[string]json.RawMessage
	if !bytes.Contains(body, []byte(o.session)) || json.Unmarshal(body, &out) != nil {
		return body
	}
	for _, name := range []string{"Attributes", "Item"} {
		if json.Unmarshal(out[name], &item) == nil && text(item["version"]) == o.version && text(item["holder"]) == o.session {
			body = o.count(out, name, "renewal", -o.renewal)
		}
	}
	return bytes.ReplaceAll(body, []byte(o.session), []byte(o.mine))
}

// count adds to a number of a map in a body, and returns the body.
func (o *origin) count(body map[string]json.RawMessage, in, name string, add int64) []byte {
	var values map[string]json.RawMessage
	_ = json.Unmarshal(body[in], &values) // it was read before
	if n, err := strconv.ParseInt(text(values[name]), 10, 64); err == nil {
		values[name] = fmt.Appendf(nil, `{"N":"%d"}`, n+add)
	}
	body[in], _ = json.Marshal(values) // what was read can be written
	all, _ := json.Marshal(body)
	return all
}

// claimGuard is the release's: the default, since no configuration sets another.
func (p *process) claimGuard() time.Duration { return min(time.Second, p.release.TTL/10) }

// narrow leaves a pool no other node ID than the original's, and no count by which it is
// mostly taken, so that the copy claims that one without a search.
func (o *origin) narrow(answer []byte) []byte {
	var out struct{ Item map[string]any }
	if json.Unmarshal(answer, &out) != nil {
		return answer
	}
	if out.Item["card"] != nil { // without one, it reads the pool's item
		return []byte("{}")
	}
	if out.Item["pool_size"] == nil {
		return answer
	}
	for name, n := range map[string]int{"exclude_below": o.node, "pool_size": o.node + 1} {
		out.Item[name] = map[string]string{"N": strconv.Itoa(n)}
	}
	delete(out.Item, "measured") // so that it guesses
	narrowed, err := json.Marshal(out)
	if err != nil {
		return answer
	}
	return narrowed
}

// back exchanges the sessions in an answer to a copy.
func (p *process) back(res *http.Response) {
	o := p.origin
	if o == nil || o.mine == "" || receive(res) != nil {
		return
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return
	}
	whole := res.Header.Get("X-Amz-Crc32") == checksum(body)
	if whole { // what was damaged stays so
		body = o.asCopy(body)
		res.Header.Set("X-Amz-Crc32", checksum(body))
	}
	res.ContentLength = int64(len(body))
	res.Body = io.NopCloser(bytes.NewReader(body))
}

// pair is an original and a copy that have the same dice: each sends its renewals when
// the other does.
type pair struct {
	mu    sync.Mutex
	first chan struct{} // closed when the second one has come; nil: nobody waits
}

// meet waits for the other one's renewal, for almost as long as one may last.
func (p *pair) meet() {
	p.mu.Lock()
	if first := p.first; first != nil {
		p.first = nil
		p.mu.Unlock()
		close(first)
		time.Sleep(20 * time.Millisecond) // virtual: one after the other
		return
	}
	mine := make(chan struct{})
	p.first = mine
	p.mu.Unlock()
	select {
	case <-mine:
	case <-time.After(900 * time.Millisecond):
		p.mu.Lock()
		if p.first == mine {
			p.first = nil
		}
		p.mu.Unlock()
	}
}

// inStep lets a renewal wait for the other one's.
func (p *process) inStep(r *http.Request) {
	both := p.pair.Load()
	if both == nil || r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.UpdateItem" {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte("SET expires_at")) {
		both.meet()
	}
}
