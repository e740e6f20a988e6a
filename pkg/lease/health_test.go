package lease_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// The live check answers 200 during an outage, so that the outage does not restart a
// fleet. The ready check answers 503.
func TestHealth(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		check := func(status string, live, ready int) {
			t.Helper()
			for i, h := range []http.Handler{a, a.Ready()} {
				want := []int{live, ready}[i]
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				var body struct {
					Status, Pool, Error string
					NodeID              int `json:"node_id"`
					Version             int64
				}
				if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
					t.Fatal(err, w.Body)
				}
				if w.Code != want || body.Status != status || body.Pool != "orders" || body.Version != 1 || (body.Error == "") != (status == "held") {
					t.Errorf("%d %s, want %d with status %s", w.Code, w.Body, want, status)
				}
			}
		}
		check("held", 200, 200)
		s.SetOutage(errors.New("away"))
		fixture.Wait(20 * time.Second)
		check("suspended", 200, 503)
		s.SetOutage(nil)
		fixture.Wait(2 * time.Second)
		check("held", 200, 200)
		fixture.Take(t, s, a)
		fixture.Wait(2 * time.Second)
		check("lost", 503, 503)
	})
	fixture.Virtual(t, func(t *testing.T) {
		a := fixture.Start(t, fixture.Config(fixture.NewNetwork(1)))
		_ = a.Close()
		w := httptest.NewRecorder()
		if a.ServeHTTP(w, nil); w.Code != 503 {
			t.Error(w.Code, w.Body)
		}
	})
}

// Ready answers 503 whenever IDs cannot be made, for any reason. With ?need=lease it
// answers 503 when the lease may not be relied on.
func TestReadyIsWhatNextSays(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		clock := leasetest.NewClock(0)
		cfg := fixture.Config(s)
		cfg.Clock, cfg.Reserve = clock, 10*time.Minute
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
		check := func(when string, live, ready, held int) {
			t.Helper()
			for url, want := range map[string]int{"/": ready, "/?need=ids": ready, "/?need=lease": held} {
				w := httptest.NewRecorder()
				if a.Ready().ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil)); w.Code != want {
					t.Errorf("%s: ready%s is %d %s, want %d", when, url, w.Code, w.Body, want)
				}
			}
			w := httptest.NewRecorder()
			if a.ServeHTTP(w, nil); w.Code != live {
				t.Errorf("%s: live is %d %s, want %d", when, w.Code, w.Body, live)
			}
			if id, err := g.Next(); (err == nil) != (ready == 200) {
				t.Errorf("%s: got the ID %v, %v; ready is %d", when, id, err, ready)
			}
		}
		check("at first", 200, 200, 200)
		clock.Step(-30 * time.Second)
		check("with a clock set back", 200, 503, 200)
		clock.Step(30 * time.Second)
		fixture.Wait(time.Second)
		check("with the clock set right", 200, 200, 200)
		s.SetOutage(errors.New("away"))
		fixture.Wait(time.Minute)
		check("suspended with IDs left", 200, 200, 503)
		fixture.Wait(10 * time.Minute)
		check("suspended without", 200, 503, 503)
		s.SetOutage(nil)
		fixture.Wait(3 * time.Second)
		check("resumed", 200, 200, 200)
	})
}

// If only the wall clock shows that an on-demand agent's lease has ended, the health check
// reports that no time is left.
func TestHealthOnDemandAfterASleep(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		o, clock := fixture.OnDemand(t, fixture.NewNetwork(1))
		fixture.Refresh(t, o)
		clock.Freeze(time.Hour, true)
		w := httptest.NewRecorder()
		o.ServeHTTP(w, nil)
		var h struct {
			Status string
			LeftMS int64 `json:"left_ms"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
			t.Fatal(err)
		}
		if h.Status != "suspended" || h.LeftMS > -time.Minute.Milliseconds() {
			t.Errorf("got %s, want suspended for most of an hour", w.Body)
		}
	})
}
