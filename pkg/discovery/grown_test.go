package discovery

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// When a process registers, its lease becomes short at once, even if it had grown, and
// stays short, because a crashed instance is found until its lease expires. A warning
// states until when the long lease is valid.
func TestRegisterWithAGrownLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(64)
		m := protocol.Measure{Pool: "orders", Measured: protocol.Measured{Held: 1, At: time.Now(), Valid: 24 * time.Hour}}
		if res, err := w.leases.WritePool(t.Context(), m); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		var mu sync.Mutex
		var warnings []string
		a := w.agent(t, func(c *lease.Config) {
			c.Grow = true
			c.OnEvent = func(e lease.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == lease.EventWarning {
					warnings = append(warnings, e.Err.Error())
				}
			}
		})
		fixture.Wait(9 * time.Hour)
		grown := w.lease(t, a.NodeID())
		if grown.TTL != 15*time.Minute {
			t.Fatalf("a lease of %v, want 15 min", grown.TTL)
		}
		register(t, w.directory(t, nil), a, Service{"orders", at(1)})
		fixture.Wait(time.Second)
		if l := w.lease(t, a.NodeID()); l.TTL != lease.DefaultTTL || l.Renewal != grown.Renewal+1 {
			t.Errorf("a second later: a lease of %v, renewal %d after %d, want %v and the next", l.TTL, l.Renewal, grown.Renewal, lease.DefaultTTL)
		}
		fixture.Wait(time.Hour)
		if l := w.lease(t, a.NodeID()); l.TTL != lease.DefaultTTL || time.Until(l.ExpiresAt) > lease.DefaultTTL {
			t.Errorf("an hour later: a lease of %v, until %v", l.TTL, l.ExpiresAt)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := "others watch this lease"; len(warnings) != 1 || !strings.Contains(warnings[0], want) || !strings.Contains(warnings[0], protocol.Stamp(grown.ExpiresAt)) {
			t.Errorf("warnings: got %q, want one of %q with %s", warnings, want, protocol.Stamp(grown.ExpiresAt))
		}
	})
}
