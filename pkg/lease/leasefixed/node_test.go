package leasefixed

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A fixed node ID works wherever a leased node ID works, and every output shows that it
// has no lease.
func TestFixed(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	f, err := New(7, snowflake.JS53())
	if err != nil {
		t.Fatal(err)
	}
	var p lease.Provider = f
	l, err := p.Lease()
	if err != nil || p.NodeID() != 7 || l.NodeID != 7 || l.Version != 0 || l.Fenced() || l.Holder != "" {
		t.Errorf("got %+v, %v; want node 7 with version 0, unfenced", l, err)
	}
	if !strings.Contains(log.String(), "node_id=7") || !strings.Contains(log.String(), "fixed") {
		t.Errorf("the log says %q, want that node 7 is fixed", log.String())
	}
	ids, err := snowflake.New(p) // needs no WithLayout, since the node has a layout
	if err != nil {
		t.Fatal(err)
	}
	if id, err := ids.Next(); err != nil || snowflake.JS53().Decompose(id).Node != 7 {
		t.Errorf("got %v, %v; want an ID of node 7", id, err)
	}
	if _, err := snowflake.New(p, snowflake.WithLayout(snowflake.Default())); err == nil || !strings.Contains(err.Error(), "fixed node 7 has the layout") {
		t.Errorf("another layout: got %v, want an error with both", err)
	}
	want := func(h http.Handler, path string, status int, part string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != status || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s: got %d %s, want %d with %s", path, w.Code, w.Body, status, part)
		}
	}
	want(p, "/livez", 200, `{"status":"fixed","pool":"","node_id":7,"version":0}`)
	want(p.Ready(), "/readyz", 200, `"fixed"`)
	want(p.Ready(), "/readyz?need=lease", 503, "has no lease")
	if p.Err() != nil {
		t.Error(p.Err())
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	<-p.Done()
	if _, err := p.Lease(); !errors.Is(err, lease.ErrClosed) || !errors.Is(p.Err(), lease.ErrClosed) {
		t.Errorf("after Close: got %v and %v, want ErrClosed", err, p.Err())
	}
	if _, err := ids.Next(); !errors.Is(err, snowflake.ErrClosed) {
		t.Errorf("an ID after Close: got %v, want ErrClosed", err)
	}
	want(p, "/livez", 503, `"closed"`)
}

func TestFixedRefuses(t *testing.T) {
	for _, n := range []int{-1, 64, 1 << 16, math.MinInt, math.MaxInt} {
		if _, err := New(n, snowflake.JS53()); err == nil || !strings.Contains(err.Error(), strconv.Itoa(n)) || !strings.Contains(err.Error(), "use 0 to 63") {
			t.Errorf("New(%d): got %v, want an error with the number and the range", n, err)
		}
	}
	if _, err := New(1, snowflake.Layout{}); err == nil || !strings.Contains(err.Error(), "snowflake.Default()") {
		t.Errorf("no layout: got %v, want an error with a remedy", err)
	}
}

// still is a clock whose wall clock can be set. When a call waits, both clocks advance.
type still struct {
	wall time.Time
	mono time.Duration
}

func (c *still) Wall() time.Time          { return c.wall }
func (c *still) Monotonic() time.Duration { return c.mono }
func (c *still) Sleep(d time.Duration)    { c.wall, c.mono = c.wall.Add(d), c.mono+d }

// Even after the wall clock has stepped back, no ID is ahead of it, since the next run of
// the process begins at the wall clock.
func TestFixedMakesNothingAheadOfTheClock(t *testing.T) {
	clock := &still{wall: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	f, err := newOn(clock, 7, snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ids, err := snowflake.New(f, snowflake.WithMaxBackward(time.Hour), snowflake.WithMaxWait(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ids.Next(); err != nil {
		t.Fatal(err)
	}
	clock.wall = clock.wall.Add(-time.Second)
	clock.mono += time.Millisecond
	var behind *snowflake.ClockError
	if id, err := ids.Next(); !errors.As(err, &behind) {
		t.Errorf("got %v, %v after a step back of 1 s, want a ClockError", id, err)
	}
	w := httptest.NewRecorder()
	f.Ready().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("ready: got %d %s, want 503", w.Code, w.Body)
	}
}

// A layout is equal to itself with its epoch in another time zone.
func TestLayoutInAnotherTimeZone(t *testing.T) {
	l := snowflake.Default()
	n, err := New(1, l)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	l.Epoch = l.Epoch.In(time.FixedZone("CET", 3600))
	if _, err := snowflake.New(n, snowflake.WithLayout(l)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
