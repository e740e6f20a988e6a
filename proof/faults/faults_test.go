package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Processes are killed by kill -9 at any moment: in a call, in a claim, between a write and
// its answer.
func TestKill9(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 8)
	var live []*worker
	for range 5 {
		live = append(live, f.start(workerBinary, ""))
	}
	for range 25 * *rounds {
		i := f.r.IntN(len(live))
		switch f.r.IntN(4) {
		case 0: // while it starts
			if w := live[i]; w.count("claimed") == 0 {
				w.kill()
			} else {
				w.more("renewed", 1)
				w.kill()
			}
		case 1:
			live[i].more("renewed", 1+f.r.IntN(2))
			live[i].kill()
		default:
			live[i].more("ids", 1+f.r.IntN(200))
			live[i].kill()
		}
		live[i] = f.start(workerBinary, "")
	}
	for _, w := range live {
		w.more("ids", 20)
	}
}

// A process is frozen for longer than its lease, and another process claims its node ID.
// After the thaw, the first process makes no ID in the milliseconds of the second one,
// whatever it was doing when it was frozen.
func TestFreeze(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	var live []*worker
	for range 5 { // two of the five have to wait
		live = append(live, f.start(workerBinary, "", "-on-lost", "1", "-every", "200us"))
	}
	holders := func() (held []*worker) {
		for _, w := range live {
			if w.node >= 0 && !w.frozen && strings.HasPrefix(w.last, "renewed") {
				held = append(held, w)
			}
		}
		return held
	}
	for range 8 * *rounds {
		var w *worker
		f.until("three holders", func() bool {
			held := holders()
			if len(held) == 3 {
				w = held[f.r.IntN(3)]
			}
			return len(held) == 3
		})
		w.more("ids", 1+f.r.IntN(100))
		node, version := w.held()
		w.signal(syscall.SIGSTOP)
		f.until("successor", func() bool {
			w.frozen = true
			for _, o := range live {
				if o != w && o.node == node && o.version > version && o.ids > 0 {
					return true
				}
			}
			return false
		})
		w.after("lost", func() { w.signal(syscall.SIGCONT) })
		f.mu.Lock()
		w.frozen = false
		f.mu.Unlock()
	}
	// A freeze that is shorter than the lease has no effect.
	var w *worker
	f.until("holder", func() bool {
		if held := holders(); len(held) > 0 {
			w = held[0]
		}
		return w != nil
	})
	_, version := w.held()
	w.signal(syscall.SIGSTOP)
	w.signal(syscall.SIGCONT)
	w.more("renewed", 2)
	if _, now := w.held(); now != version {
		t.Errorf("version %d after a short freeze, was %d", now, version)
	}
}

// The wall clock of a running process is set forward and back by hours, and the process is
// killed while its clock is ahead. Its successors make no ID with a time that the process
// has used.
func TestWallClockSteps(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 12)
	var live []*worker
	for range 3 {
		live = append(live, f.start(steppingBinary, ""))
	}
	step := func(w *worker, d string) {
		w.after("stepped", func() { w.order("step " + d) })
		w.more("renewed", 2)
	}
	for range 2 * *rounds {
		for i, w := range live {
			w.more("ids", 20)
			step(w, "1h")
			w.more("ids", 20)
			step(w, "-1h") // no IDs can be made until the clock catches up, but the lease goes on
			step(w, "-5s") // no IDs for 5 s: the stamps did not follow the clock while it was an hour ahead
			step(w, "1h0m5s")
			w.more("ids", 20)
			step(w, "-300ms") // IDs continue, ahead of the clock
			w.more("ids", 20)
			step(w, "400ms")
			w.more("ids", 20)
			if i == 0 {
				w.kill()
				live[i] = f.start(steppingBinary, "")
			}
		}
	}
	for _, w := range live {
		if w.count("lost") > 0 || w.count("suspended") > 0 && w.count("resumed") == 0 {
			t.Errorf("worker %d lost its lease because of a clock step: %s", w.number, strings.Join(w.recent, "\n"))
		}
	}
}

// proxied starts a worker behind a proxy of its own.
func (f *fleet) proxied(t *testing.T) (*worker, *toxiproxy.Proxy) {
	t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "db", "127.0.0.1:0", f.addr)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return f.start(workerBinary, p.Listen), p
}

func toxic(t *testing.T, p *toxiproxy.Proxy, text string) {
	t.Helper()
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

const (
	answersVanish  = `{"name":"answers","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`
	requestsVanish = `{"name":"requests","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`
)

// A proxy passes on requests but loses the answers, so the writes are applied. The holder is
// suspended, keeps sending requests, and resumes with the first answer that it receives.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	w, p := f.proxied(t)
	w.more("renewed", 2)
	node, version := w.held()
	w.after("suspended", func() { toxic(t, p, answersVanish) })
	before := f.item(node)
	w.more("unanswered", 3)
	after := f.item(node)
	if after.Renewal <= before.Renewal || after.Version != int64(version) {
		t.Errorf("no renewal happened: renewal %d, then %d", before.Renewal, after.Renewal)
	}
	w.after("resumed", func() {
		if err := p.Toxics.RemoveToxic(t.Context(), "answers"); err != nil {
			t.Fatal(err)
		}
	})
	w.more("ids", 20)
	if n, v := w.held(); n != node || v != version {
		t.Errorf("node %d, version %d after the outage; it was %d, %d", n, v, node, version)
	}
}

// A connection is a black hole: requests do not arrive, and nothing comes back, not even an
// error. Only time-outs detect that.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	w, p := f.proxied(t)
	w.more("renewed", 2)
	node, version := w.held()
	toxic(t, p, requestsVanish)
	w.after("suspended", func() { toxic(t, p, answersVanish) })
	before := f.item(node)
	w.more("unanswered", 3)
	if after := f.item(node); after.Renewal != before.Renewal {
		t.Errorf("renewal %d, then %d, through a black hole", before.Renewal, after.Renewal)
	}
	w.after("resumed", func() { p.Toxics.ResetToxics(t.Context()) })
	w.more("ids", 20)
	if n, v := w.held(); n != node || v != version {
		t.Errorf("node %d, version %d after the outage; it was %d, %d", n, v, node, version)
	}
}

// While workers on four node IDs are replaced, one or several connections at a time are
// slow, split data into pieces, are reset, or lose requests or answers.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	var proxies []*toxiproxy.Proxy
	var live []*worker
	for range 4 {
		w, p := f.proxied(t)
		live, proxies = append(live, w), append(proxies, p)
	}
	for _, w := range live {
		w.more("renewed", 1)
	}
	toxics := []string{
		answersVanish, requestsVanish,
		`{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":150,"jitter":100}}`,
		`{"name":"late","type":"latency","stream":"upstream","attributes":{"latency":700,"jitter":600}}`,
		`{"name":"reset","type":"reset_peer","stream":"downstream","attributes":{"timeout":5}}`,
		`{"name":"pieces","type":"slicer","stream":"downstream","attributes":{"average_size":20,"size_variation":10,"delay":500}}`,
	}
	for range 12 * *rounds {
		i := f.r.IntN(len(live))
		toxic(t, proxies[i], toxics[f.r.IntN(len(toxics))])
		if f.r.IntN(2) == 0 {
			live[f.r.IntN(len(live))].more("ids", 1)
		} else {
			f.mu.Lock()
			said := live[i].lines["unanswered"] + live[i].lines["renewed"] + 1 + f.r.IntN(5)
			f.mu.Unlock()
			f.until("effect", func() bool {
				return live[i].ended || live[i].lines["unanswered"]+live[i].lines["renewed"] >= said
			})
		}
		proxies[i].Toxics.ResetToxics(t.Context())
		if f.ended(live[i]) {
			live[i], proxies[i] = f.proxied(t)
		}
		live[i].more("ids", 1)
	}
}

func (f *fleet) ended(w *worker) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return w.ended
}

// The server is gone for longer than any lease, and comes back. No process ends meanwhile,
// and every holder continues with the same node ID and version.
func TestServerGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	var live []*worker
	for range 4 {
		live = append(live, f.start(workerBinary, ""))
	}
	type lease struct{ node, version int }
	had, suspended := map[*worker]lease{}, map[*worker]int{}
	for range *rounds {
		for _, w := range live {
			w.more("renewed", 2)
			n, v := w.held()
			had[w] = lease{n, v}
			suspended[w] = w.count("suspended")
		}
		f.unserve()
		gone := time.Now()
		for _, w := range live {
			w.until("suspension", func() bool { return w.lines["suspended"] > suspended[w] })
		}
		for time.Since(gone) < 4*ttl { // corresponds to a minute for leases of 15 s
			live[0].more("unanswered", 1)
		}
		f.serve()
		for _, w := range live {
			w.until("resumption", func() bool { return w.lines["resumed"] == w.lines["suspended"] })
			w.more("ids", 20)
			if n, v := w.held(); had[w] != (lease{n, v}) || w.count("lost") > 0 {
				t.Errorf("worker %d has node %d with version %d; it had %+v", w.number, n, v, had[w])
			}
		}
	}
	for _, w := range live {
		w.stop()
	}
}
