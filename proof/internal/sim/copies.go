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

// This file simulates copies of running processes, such as those restored from a virtual
// machine's snapshot or from a checkpoint. Simulated processes cannot really be copied. So a
// copy is a new process that starts in no time and is made to believe everything that the
// original believes. It claims the original's node ID, and the answer to its claim is the
// item as the original's last renewal left it. While the copy starts, its clocks show the
// time at which that renewal was sent. Afterwards, the copy's connection replaces the copy's
// session with the original's in each request, and the original's with the copy's in each
// answer. In the same way, it makes the number of the copy's renewals continue that of the
// original's. A copy knows what its original has stamped, so if it has made no ID itself, its
// release reserves at least that.
//
// Half of the copies have the same dice as the original, so that the two always renew at the
// same time. The other copies do not.

// origin describes the original of a copy.
type origin struct {
	node    int
	item    map[string]json.RawMessage // as the original's last renewal left it
	session string                     // of the original
	version string
	renewal int64  // number of the original's last renewal
	stamped int64  // the latest millisecond that the original had stamped with the node ID, or 0
	mine    string // the session that the copy believes to have; "" until it claims
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
			alone[r.IntN(len(alone))].copyNext.Store(true) // the copy is made at the next renewal
		}
	}
}

// copied makes a copy of a process whose hook has just been told of a renewal.
func (p *process) copied(l lease.Lease) {
	w := p.World
	m := w.newMachine()
	m.clock = p.clock.copy()
	lag := p.clock.wall().Sub(l.ExpiresAt.Add(-l.TTL))
	item := w.network.item(l.NodeID)
	now := l.ExpiresAt.Add(-l.TTL) // the copy's claim must request exactly what the original's renewal requested
	if lag < 0 || lag > 2*time.Second || text(item["holder"]) != l.Holder || text(item["renewal"]) != strconv.FormatInt(l.Renewal, 10) ||
		!l.ReservedUntil.Equal(now.Add(max(p.release.Reserve, l.TTL+p.claimGuard()))) {
		return // something has changed since, or more is reserved than a claim would request
	}
	c := w.newProcess(m)
	c.task, c.release, c.copyOf, c.misfit = p.task, p.release, p, false
	c.origin = &origin{node: l.NodeID, item: item, session: l.Holder, version: strconv.FormatInt(l.Version, 10), renewal: l.Renewal}
	if made := p.stamped.Load(); made != nil && made.node == l.NodeID {
		c.origin.stamped = made.ms
	}
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

// liveOn runs a copy from its start to its end.
func (p *process) liveOn(stopping context.Context) {
	client := p.client()
	cfg := p.config(client)
	cfg.Wait, cfg.Metadata = 0, nil
	a, err := lease.Start(stopping, cfg)
	p.origin.born.Store(true)
	p.lag.Store(0)
	// The start may fail if the copy has read the clock later than the original did, since
	// the claim then differs from the original's renewal. It may also fail if a vandal has
	// broken the item since that renewal.
	if err != nil && stopping.Err() == nil && !p.clock.wasMoved() && !p.stopped.Load() && !p.World.isBroken(p.origin.node) {
		p.World.fail(fmt.Errorf("process %d is no copy: %w", p.number, err))
	}
	if err != nil {
		return
	}
	p.World.count(func(c *Counts) { c.Copies++ })
	p.serve(stopping, context.WithoutCancel(stopping), client, a)
}

// translate answers the requests of a copy while the copy starts. Afterwards, it only
// replaces the session in each request.
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
	if c.writes() && bytes.Contains(c.body, []byte(`":session"`)) { // not a write of the pool's item, such as the one that ends a dead widening
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

// asOriginal returns a request of the copy, changed to what the original would send.
func (o *origin) asOriginal(body []byte) []byte {
	var in, values map[string]json.RawMessage
	if o.mine == "" || !bytes.Contains(body, []byte(o.mine)) {
		return body
	}
	if json.Unmarshal(body, &in) == nil && json.Unmarshal(in["ExpressionAttributeValues"], &values) == nil && text(values[":version"]) == o.version {
		body = o.count(in, "ExpressionAttributeValues", ":renewal", o.renewal)
		if until, err := strconv.ParseInt(text(values[":reserved_until"]), 10, 64); err == nil && until < o.stamped && until >= 0 && bytes.Contains(body, []byte("REMOVE holder")) {
			body = o.count(in, "ExpressionAttributeValues", ":reserved_until", o.stamped-until)
		}
	}
	return bytes.ReplaceAll(body, []byte(o.mine), []byte(o.session))
}

// asCopy returns an answer, changed to what the copy must receive.
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

// count adds add to the number with the key name in the map with the key in, and returns the
// changed body.
func (o *origin) count(body map[string]json.RawMessage, in, name string, add int64) []byte {
	var values map[string]json.RawMessage
	_ = json.Unmarshal(body[in], &values) // cannot fail: the caller has unmarshaled the same text
	if n, err := strconv.ParseInt(text(values[name]), 10, 64); err == nil {
		values[name] = fmt.Appendf(nil, `{"N":"%d"}`, n+add)
	}
	body[in], _ = json.Marshal(values) // cannot fail, since it was unmarshaled
	all, _ := json.Marshal(body)
	return all
}

// claimGuard returns the release's claim guard. It is always the default, since no
// configuration sets it.
func (p *process) claimGuard() time.Duration { return min(time.Second, p.release.TTL/10) }

// narrow changes an answer so that the pool has only the original's node ID, and no
// measurement by which most node IDs are taken. So the copy claims the original's node ID
// without a search.
func (o *origin) narrow(answer []byte) []byte {
	var out struct{ Item map[string]any }
	if json.Unmarshal(answer, &out) != nil {
		return answer
	}
	if out.Item["card"] != nil { // without a hint card, the copy reads the pool's item
		return []byte("{}")
	}
	if out.Item["pool_size"] == nil {
		return answer
	}
	for name, n := range map[string]int{"exclude_below": o.node, "pool_size": o.node + 1} {
		out.Item[name] = map[string]string{"N": strconv.Itoa(n)}
	}
	delete(out.Item, "measured") // so that the copy guesses a node ID
	narrowed, err := json.Marshal(out)
	if err != nil {
		return answer
	}
	return narrowed
}

// back replaces the original's session with the copy's in an answer to the copy.
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
	if whole { // a damaged answer stays damaged
		body = o.asCopy(body)
		res.Header.Set("X-Amz-Crc32", checksum(body))
	}
	res.ContentLength = int64(len(body))
	res.Body = io.NopCloser(bytes.NewReader(body))
}

// pair is an original and a copy that have the same dice: each sends its renewals at the
// same time as the other.
type pair struct {
	mu    sync.Mutex
	first chan struct{} // closed when the second of the two processes arrives; nil if neither waits
}

// meet waits for the renewal of the other process, for almost as long as a renewal may take.
func (p *pair) meet() {
	p.mu.Lock()
	if first := p.first; first != nil {
		p.first = nil
		p.mu.Unlock()
		close(first)
		time.Sleep(20 * time.Millisecond) // virtual time, so that the two renewals are sent one after the other
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

// asks records a renewal of a copy or of its original for the judge: if both request the
// same milliseconds, the table cannot distinguish them.
func (p *process) asks(r *http.Request) error {
	if p.copyOf == nil && !p.hadCopy.Load() || r.Body == nil || r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.UpdateItem" {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var in struct {
		Key                       map[string]struct{ N string }
		ExpressionAttributeValues map[string]struct{ N string }
	}
	if !bytes.Contains(body, []byte("SET expires_at")) || json.Unmarshal(body, &in) != nil {
		return nil
	}
	values := in.ExpressionAttributeValues
	node, _ := strconv.Atoi(in.Key["node_id"].N)
	version, _ := strconv.ParseInt(values[":version"].N, 10, 64)
	until, _ := strconv.ParseInt(values[":reserved_until"].N, 10, 64)
	p.World.note(history.Event{Kind: history.Ask, Who: p.number, Node: node, Version: version, Until: until})
	return nil
}

// inStep makes a renewal wait for the renewal of the other process of the pair.
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
