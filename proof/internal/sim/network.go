package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// weather is how the network and the store treat requests for a while.
type weather struct {
	name string
	// For each request, the probability of each treatment.
	lost, late, unanswered, throttled, failed, failedAfter float64
	garbage, denied                                        float64
	slow                                                   time.Duration // the longest delay in each direction
	refuse                                                 bool          // connections are refused
}

// climate lists the weathers from which the network draws the present one.
var climate = []weather{
	{name: "calm", slow: 20 * time.Millisecond},
	{name: "calm", slow: 20 * time.Millisecond},
	{name: "slow", slow: 1500 * time.Millisecond},
	{name: "very slow", slow: 4 * time.Second},
	{name: "lossy", slow: 50 * time.Millisecond, lost: 0.15, unanswered: 0.15},
	{name: "late", slow: 50 * time.Millisecond, late: 0.2},
	{name: "throttling", slow: 50 * time.Millisecond, throttled: 0.5},
	{name: "failing", slow: 50 * time.Millisecond, failed: 0.3, failedAfter: 0.3},
	{name: "deaf: writes are done, answers lost", slow: 50 * time.Millisecond, unanswered: 1},
	{name: "away: requests hang", lost: 1},
	{name: "away: no connections", refuse: true},
	{name: "away: writes are done, connections cut", refuse: true, unanswered: 1},
	{name: "everything", slow: time.Second, lost: 0.05, late: 0.1, unanswered: 0.1, throttled: 0.05, failed: 0.05, failedAfter: 0.05},
}

// garbled is added to the climate of worlds with the part "garbage", and denying to that of
// worlds with the part "denied".
var (
	garbled = []weather{{name: "garbage", slow: 50 * time.Millisecond, garbage: 0.3}, {name: "nothing but garbage", slow: 50 * time.Millisecond, garbage: 1}}
	denying = []weather{{name: "denying", slow: 50 * time.Millisecond, denied: 0.3}, {name: "nothing but denials", slow: 50 * time.Millisecond, denied: 1}}
)

// network connects the machines to the database.
type network struct {
	*World
	db http.Handler

	mu      sync.Mutex
	r       *rand.Rand
	weather weather
	since   time.Time          // when the weather was last not calm
	away    bool               // the store is unreachable for all machines, whatever the weather: see outages
	outages [2]time.Time       // when the last outage began and ended
	local   map[string]weather // the weathers of machines that have their own, by host
	climate []weather
	sent    []*call         // some of the calls that were ever sent: see replays
	reads   map[string]load // reads of the pool's item, by host: see judgeLoad
	stale   *rand.Rand
	pages   map[string]shown // answers to eventually consistent reads, by request
	cards   *cards
	strong  map[string]time.Time // the last strong read of the pool's item, by host
	foreign string               // the machine that is in another Region

	serial sync.Mutex // held while a call is done and witnessed, so that calls are done one at a time
	calls  sync.WaitGroup
}

func newNetwork(w *World, db http.Handler) *network {
	n := &network{World: w, db: db, r: rand.New(rand.NewPCG(w.Plan.Seed, 5)), weather: climate[0], since: time.Now(), local: map[string]weather{}, climate: climate, reads: map[string]load{}, stale: rand.New(rand.NewPCG(w.Plan.Seed, 13)), pages: map[string]shown{}, cards: newCards(w.Plan.Seed), strong: map[string]time.Time{}}
	if w.Plan.has("garbage") {
		n.climate = append(slices.Clone(n.climate), garbled...)
	}
	if w.Plan.has("denied") {
		n.climate = append(slices.Clone(n.climate), denying...)
	}
	return n
}

// fate is the treatment of one request.
type fate struct {
	before, after time.Duration
	lost          bool   // the request never arrives
	refusal       string // if set, the store answers with this error and does nothing
	garbage       bool   // the request is done or not, and something other than DynamoDB answers
	failedAfter   bool   // the store does the request and answers 500
	unanswered    bool
}

func (n *network) fate(host string) fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.weather
	if own, ok := n.local[host]; ok {
		w = own
	}
	if n.away {
		w = weather{lost: 1}
	}
	chance := func(p float64) bool { return n.r.Float64() < p }
	upTo := func(d time.Duration) time.Duration { return time.Duration(n.r.Int64N(int64(d) + 1)) }
	f := fate{before: upTo(w.slow), after: upTo(w.slow), lost: chance(w.lost), unanswered: chance(w.unanswered), failedAfter: chance(w.failedAfter)}
	switch {
	case chance(w.late):
		f.before += upTo(3 * n.Plan.TTL())
	case chance(w.throttled):
		f.refusal = "ProvisionedThroughputExceededException"
	case chance(w.failed):
		f.refusal = "InternalServerError"
	case chance(w.denied):
		f.refusal = denials[n.r.IntN(len(denials))]
	}
	f.garbage = chance(w.garbage)
	return f
}

// carry draws the fate of a call, carries out the call, and returns the answer. When the
// sender has gone, ctx ends, but carry continues. If no answer arrives, carry waits for the
// end of ctx and returns nil. The caller must have added 1 to n.calls.
func (n *network) carry(ctx context.Context, c *call) *answer {
	defer n.calls.Done()
	f := n.fate(c.host)
	n.remember(c)
	n.judgeLoad(c)
	n.count(func(c *Counts) { c.Requests++ })
	time.Sleep(f.before)
	switch {
	case f.lost:
		n.count(func(c *Counts) { c.RequestsLost++ })
		<-ctx.Done()
		return nil
	case f.refusal != "":
		n.count(func(c *Counts) { c.Refused++ })
		return refusal(f.refusal)
	}
	if ctx.Err() != nil {
		n.count(func(c *Counts) { c.Late++ })
	}
	if f.garbage && n.coin() { // something other than the store answers
		n.count(func(c *Counts) { c.Garbage++ })
		return n.babble(c.body, []byte("{}"))
	}
	a := n.read(c)
	if a == nil {
		<-ctx.Done()
		return nil
	}
	time.Sleep(f.after)
	switch {
	case f.garbage:
		n.count(func(c *Counts) { c.Garbage++ })
		return n.babble(c.body, a.body)
	case f.unanswered:
		n.count(func(c *Counts) { c.AnswersLost++ })
		<-ctx.Done()
		return nil
	case f.failedAfter:
		n.count(func(c *Counts) { c.AnswersLost++ })
		return refusal("InternalServerError")
	}
	n.answered(c)
	return n.seenFrom(c, a)
}

// do makes the database do the call, and then witnesses what the call wrote.
func (n *network) do(c *call) *answer {
	done := c.body
	if n.Plan.Tamper != nil {
		done = n.Plan.Tamper(c.body)
	}
	r := &http.Request{Method: http.MethodPost, URL: root, Header: c.header, Host: c.host, Body: io.NopCloser(bytes.NewReader(done)), ContentLength: int64(len(done))}
	a := newAnswer()
	n.serial.Lock()
	defer n.serial.Unlock()
	n.db.ServeHTTP(a, r)
	if c.writes() {
		if a.status == http.StatusOK {
			n.witnessWrite(c.body, a.body)
		}
		n.judgeShared(c.body, a.body, a.status != http.StatusOK)
	}
	return a
}

var root = &url.URL{Path: "/"}

// item returns the current item of a node ID.
func (n *network) item(node int) map[string]json.RawMessage {
	n.serial.Lock()
	defer n.serial.Unlock()
	return n.raw[node]
}

// refusal returns the store's answer with an error code.
func refusal(code string) *answer {
	a := newAnswer()
	a.status = http.StatusBadRequest
	if code == "InternalServerError" {
		a.status = http.StatusInternalServerError
	}
	a.header.Set("Content-Type", "application/x-amz-json-1.0")
	a.body = fmt.Appendf(nil, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"simulated"}`, code)
	return a
}

// become changes the weather of one machine, or, if host is empty, the general weather.
func (n *network) become(w weather, host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if host == "" {
		if n.weather.name != "calm" {
			n.since = time.Now()
		}
		n.weather = w
		return
	}
	n.local[host] = w
}

// any draws a weather with the caller's random source.
func (n *network) any(intN func(int) int) weather { return n.climate[intN(len(n.climate))] }

// calmFor returns for how long the general weather has been calm.
func (n *network) calmFor() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away || n.weather.name != "calm" {
		return 0
	}
	return time.Since(n.since)
}

// outage begins an outage of the store if away is set, and otherwise ends it.
func (n *network) outage(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away, n.since = away, time.Now()
	if away {
		n.outages[0] = n.since
	} else {
		n.outages[1] = n.since
	}
}

// lastOutage returns when the last outage began and ended.
func (n *network) lastOutage() (from, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.outages[0], n.outages[1]
}

func (n *network) coin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.r.IntN(2) == 0
}

// clear ends a machine's own weather.
func (n *network) clear(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.local, host)
}

// refuses reports whether connections from a machine are refused.
func (n *network) refuses(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w, ok := n.local[host]; ok {
		return w.refuse
	}
	return n.weather.refuse
}
