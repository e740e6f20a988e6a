package sidecar

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// MaxIDs is how many IDs one request may ask for.
const MaxIDs = 10_000

// patience is how long a request waits for its IDs when more are requested than the layout
// allows.
const patience = 5 * time.Second

// batch holds the buffers of a request, which later requests reuse.
type batch struct {
	ids  []snowflake.ID
	text []byte
}

var batches = sync.Pool{New: func() any { return &batch{} }}

func (h *handler) makeIDs(w http.ResponseWriter, r *http.Request) {
	n, form, wrong := h.asked(r)
	if wrong != nil {
		wrong.write(w)
		return
	}
	b := batches.Get().(*batch)
	defer batches.Put(b)
	if cap(b.ids) < n {
		b.ids = make([]snowflake.ID, n)
	}
	b.ids = b.ids[:n]
	if retry, err := h.queue.draw(r.Context(), b.ids, h.ids.NextN); err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client is gone: abort, so that nothing looks like an answer
		}
		p := h.problemOf(err)
		if p.Error == "busy" {
			p.retry = retry
		}
		p.write(w)
		return
	}
	b.text = form.append(b.text[:0], b.ids)
	w.Header().Set("Content-Type", form.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b.text)))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(b.text) // fails if the client is gone
}

// asked returns how many IDs a request wants, and in which form.
func (h *handler) asked(r *http.Request) (n int, f form, wrong *problem) {
	n, err := count(r.URL.RawQuery)
	if err != nil {
		return 0, f, badRequest(err.Error(), fmt.Sprintf("use POST /v1/ids?n=N with N from 1 to %d; without n it is 1", MaxIDs))
	}
	if wrong := noBody(r); wrong != nil {
		return 0, f, wrong
	}
	f, ok := choose(h.forms(), r.Header.Values("Accept"))
	if !ok {
		return 0, f, &problem{http.StatusNotAcceptable, "not_acceptable", fmt.Sprintf("Accept: %.200q", r.Header.Values("Accept")),
			"accept application/json, text/plain or application/octet-stream", 0}
	}
	return n, f, nil
}

// noBody refuses a request with a body, which has no meaning here. One byte is enough to
// detect a body; the rest is never read.
func noBody(r *http.Request) *problem {
	if got, err := r.Body.Read(make([]byte, 1)); got > 0 || err != nil && !errors.Is(err, io.EOF) {
		return &problem{http.StatusRequestEntityTooLarge, "body_too_large", "the request has a body", "send no body: n goes into the query", 0}
	}
	return nil
}

// count returns the n of a query, which may have no other parameter.
func count(query string) (int, error) {
	if len(query) > 100 {
		return 0, fmt.Errorf("the query has %d characters", len(query))
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, fmt.Errorf("the query %q: %w", query, err)
	}
	for name := range values {
		if name != "n" {
			return 0, fmt.Errorf("there is no parameter %q", name)
		}
	}
	switch given := values["n"]; len(given) {
	case 0:
		return 1, nil
	case 1:
		n, err := strconv.ParseUint(given[0], 10, 16)
		if err != nil || n < 1 || n > MaxIDs {
			return 0, fmt.Errorf("n is %q", given[0])
		}
		return int(n), nil
	default:
		return 0, fmt.Errorf("n appears %d times", len(given))
	}
}
