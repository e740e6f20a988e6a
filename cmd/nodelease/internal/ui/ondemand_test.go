package ui

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// A holder on demand is shown as such, and is never late, because its lease runs out while
// it sleeps.
func TestOnDemandHoldersAreNeverLate(t *testing.T) {
	at := time.Now()
	for _, left := range []time.Duration{time.Minute, -time.Hour} {
		for _, onDemand := range []bool{false, true} {
			l := lease.Lease{Holder: "session", Task: "lambda:orders", OnDemand: onDemand, TTL: 5 * time.Minute, ExpiresAt: at.Add(left), ReservedUntil: at.Add(left)}
			n := show(l, protocol.PoolItem{Size: 1}, at)
			if got := n.low(at, 0); got == onDemand {
				t.Errorf("on demand %v, %v left of 5 min: got late %v, want %v", onDemand, left, got, !onDemand)
			}
			b, err := json.Marshal(&n)
			if err != nil || strings.Contains(string(b), `"on_demand":true`) != onDemand {
				t.Errorf("on demand %v: got %s, %v", onDemand, b, err)
			}
		}
	}
}
