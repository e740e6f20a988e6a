package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

const (
	// MaxBlock is how many IDs one block may have.
	MaxBlock = 1 << 20

	// blockBack is how many past milliseconds a block may use, and blockLife is how long
	// the block may be used. Together with one tick, they keep IDs less than a second
	// behind the clock.
	blockBack = 250 * time.Millisecond
	blockLife = 500 * time.Millisecond

	// blockPatience is how long a request waits for its block. It is less than the time for
	// which clients wait for the answer.
	blockPatience = time.Second

	maxClients = 1024 // clients that are counted within one blockLife
)

// blocks answers POST /v1/blocks with a run of IDs that the client hands out itself.
//
// The promise is in docs/protocol-clients.md: nobody else makes an ID of a block, because
// the block's tickets were drawn from the timeline, and no answer is sent twice. The sidecar
// keeps no answers, so a retry never gets the block of an earlier attempt.
type blocks struct {
	*handler
	began time.Time // when this sidecar began to answer

	mu          sync.Mutex
	since       time.Time // when now began
	now, before map[string]struct{}
}

// blockAnswer is a block: the IDs of count tickets, beginning with first.
type blockAnswer struct {
	Nonce    string       `json:"nonce"`
	Pool     string       `json:"pool"`
	NodeID   int          `json:"node_id"`
	NodeBits int          `json:"node_bits"` // bits of a node ID in the block's era: the layout's, or fewer in a narrow pool
	First    string       `json:"first"`     // up to 63 bits, so not a JSON number
	Count    uint64       `json:"count"`
	LeftMS   int64        `json:"left_ms"` // counted from before the client sent its request
	Layout   layoutAnswer `json:"layout"`
}

func (b *blocks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := readBlockQuery(r.URL.RawQuery)
	if err != nil {
		badRequest(err.Error(), fmt.Sprintf("use POST /v1/blocks with client, nonce and n in the query: n from 1 to %d, the others of 1 to 64 of A-Z, a-z, 0-9, _ and -, a new nonce each time", MaxBlock)).write(w)
		return
	}
	if wrong := noBody(r); wrong != nil {
		wrong.write(w)
		return
	}
	if _, ok := choose(b.forms()[:1], r.Header.Values("Accept")); !ok {
		problem{http.StatusNotAcceptable, "not_acceptable", fmt.Sprintf("Accept: %.200q", r.Header.Values("Accept")), "accept application/json", 0}.write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), blockPatience)
	defer cancel()
	run, err := b.ids.Draw(ctx, q.n, b.clients(q.client, time.Now()), b.back())
	// The answer has a remaining time, not a moment, because the clocks of client and sidecar
	// are not compared. The time was measured when the run was drawn, after the client sent
	// its request. So a client that counts from before its request stops early, never late.
	left := min(run.Left, blockLife).Milliseconds()
	if err == nil && left == 0 { // the block would be over before it arrives
		err = snowflake.ErrFenced
	}
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client is gone: abort, so that nothing looks like an answer
		}
		b.problemOf(err).write(w)
		return
	}
	writeJSON(w, http.StatusOK, blockAnswer{
		Nonce: q.nonce, Pool: poolOf(b.agent), NodeID: run.NodeID, NodeBits: run.NodeBits, First: strconv.FormatUint(run.First, 10),
		Count: run.Count, LeftMS: left, Layout: answerOf(run.Layout),
	})
}

// poolOf returns the pool of the node ID; a fixed node ID has none.
func poolOf(agent lease.Provider) string {
	if leased, ok := agent.(interface{ Pool() string }); ok {
		return leased.Pool()
	}
	return ""
}

// back returns how far back a block may reach. It never reaches a tick that began before
// this sidecar was started, so that a client's IDs keep growing when its sidecar is
// restarted.
func (b *blocks) back() time.Duration {
	return min(blockBack, max(time.Since(b.began)-b.ids.Layout().Tick, 0))
}

// clients returns how many clients have sent a request within the current period of
// blockLife or, if that number is larger, within the previous period. Each client gets an
// equal share of the remaining IDs.
func (b *blocks) clients(name string, at time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := at.Sub(b.since); age >= blockLife {
		b.before, b.now, b.since = b.now, map[string]struct{}{}, at
		if age >= 2*blockLife {
			b.before = nil
		}
	}
	if len(b.now) < maxClients {
		b.now[name] = struct{}{}
	}
	return max(len(b.now), len(b.before))
}

type blockQuery struct {
	client, nonce string
	n             uint64
}

var token = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// readBlockQuery reads a query that has each parameter once, and no others.
func readBlockQuery(query string) (q blockQuery, err error) {
	if len(query) > 300 {
		return q, fmt.Errorf("the query has %d characters", len(query))
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, fmt.Errorf("the query %q: %w", query, err)
	}
	for name, given := range values {
		switch {
		case name != "client" && name != "nonce" && name != "n":
			err = fmt.Errorf("there is no parameter %q", name)
		case len(given) > 1:
			err = fmt.Errorf("%s appears %d times", name, len(given))
		case name != "n" && !token.MatchString(given[0]):
			err = fmt.Errorf("%s is %q", name, given[0])
		}
		if err != nil {
			return q, err
		}
	}
	if !values.Has("client") || !values.Has("nonce") {
		return q, errors.New("client or nonce is missing")
	}
	q = blockQuery{values.Get("client"), values.Get("nonce"), 1}
	if values.Has("n") {
		if q.n, err = strconv.ParseUint(values.Get("n"), 10, 32); err != nil || q.n < 1 || q.n > MaxBlock {
			return q, fmt.Errorf("n is %q", values.Get("n"))
		}
	}
	return q, nil
}
