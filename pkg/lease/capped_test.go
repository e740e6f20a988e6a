package lease

import (
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// What was asked for before a try was known of may have been lost, and the number
// marked since: asking for it again would reserve what the new width needs. So
// there is nothing to ask for until the try is settled.
func TestNothingBeyondTheCapIsAskedForAgain(t *testing.T) {
	base := time.UnixMilli(1795219200000).UTC()
	c := Config{TTL: 15 * time.Second, Guard: 2 * time.Second, ClaimGuard: time.Second, Reserve: 16 * time.Second}
	tm := newTerm(c, Lease{Holder: "me", Version: 1, ExpiresAt: base.Add(c.TTL), ReservedUntil: base.Add(c.Reserve)}, 0)
	first, ok := tm.attempt(5*time.Second, base.Add(5*time.Second), protocol.PoolItem{})
	if !ok || !first.write.ReservedUntil.Equal(base.Add(21*time.Second)) {
		t.Fatal(first, ok)
	}
	open := protocol.PoolItem{Widening: protocol.Widening{Try: 1, From: base.Add(20 * time.Second), State: protocol.WidenOpen}}
	if a, ok := tm.attempt(6*time.Second, base.Add(6*time.Second), open); ok {
		t.Errorf("while the try is open: %+v", a.write)
	}
	open.Widening.State = protocol.WidenVoid
	again, ok := tm.attempt(7*time.Second, base.Add(7*time.Second), open)
	if !ok || again.write.Renewal != 2 || !again.write.ReservedUntil.Equal(base.Add(23*time.Second)) {
		t.Error(again, ok)
	}
}
