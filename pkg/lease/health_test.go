package lease_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/fixture"
)

// Live stays 200 through an outage, so that it restarts no fleet; ready does not.
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
		taken(t, s, a)
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
