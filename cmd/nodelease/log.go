package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

const (
	// quiet is how long a repeating message is held back at first; the pause doubles each
	// time, up to mostQuiet.
	quiet     = 10 * time.Second
	mostQuiet = 10 * time.Minute
)

// logHandler sanitizes log lines and writes them. It combines a message that repeats into
// one line with a count, because in an outage there are two attempts per second.
type logHandler struct {
	slog.Handler
	mu    *sync.Mutex
	again map[string]*repeated
}

// repeated counts a message that has been written and keeps coming.
type repeated struct {
	since, next time.Time
	pause       time.Duration
	times       int // how often the message came, whether it was written or not
}

func newLog(out io.Writer, level slog.Level) *logHandler {
	return &logHandler{slog.NewTextHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: shellAttr}), &sync.Mutex{}, map[string]*repeated{}}
}

// shellAttr rewrites an attribute for command-line users: errors name command-line flags
// instead of Go options.
func shellAttr(groups []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(plain(err))
	} else if a.Key == "error" && a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(forShells.Replace(a.Value.String()))
	}
	return text.Attr(groups, a)
}

// repeats are the messages that the agent logs at every attempt. Handle leaves most of them
// out.
var repeats = map[string]bool{"lease unanswered": true, "lease waiting": true}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if !repeats[r.Message] {
		return h.Handler.Handle(ctx, r)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.again[r.Message]
	if before == nil {
		h.again[r.Message] = &repeated{since: r.Time, next: r.Time.Add(quiet), pause: quiet, times: 1}
		return h.Handler.Handle(ctx, r)
	}
	before.times++
	if r.Time.Before(before.next) {
		return nil
	}
	before.pause = min(2*before.pause, mostQuiet)
	before.next = r.Time.Add(before.pause)
	r = r.Clone()
	r.AddAttrs(slog.Int("times", before.times), slog.Duration("for", r.Time.Sub(before.since).Round(time.Second)))
	return h.Handler.Handle(ctx, r)
}

// heard resets the repeated messages when kind shows that a request was answered or that a
// node ID was free.
func (h *logHandler) heard(kind lease.EventKind) {
	switch kind {
	case lease.EventClaimed, lease.EventRenewed, lease.EventResumed, lease.EventLost:
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.again["lease unanswered"]; b != nil && b.times > 1 && kind != lease.EventLost {
		now := time.Now()
		r := slog.NewRecord(now, slog.LevelWarn, "lease answered again", 0)
		r.AddAttrs(slog.Int("unanswered", b.times), slog.Duration("for", now.Sub(b.since).Round(time.Second)))
		_ = h.Handler.Handle(context.Background(), r)
	}
	clear(h.again)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs), h.mu, h.again}
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.mu, h.again}
}
