package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
)

// What the table says about how long a holder makes IDs without it is true: the holder
// does until then, by its own clock for at most as long as the guards more.
func TestIDsUntilIsTrue(t *testing.T) {
	for name, c := range map[string]struct {
		lives time.Duration
		least time.Duration
	}{"a short lease": {time.Minute, 0}, "a grown lease": {8 * time.Hour, 3 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(64)
				measuring(t, s, one)
				events := make(chan lease.Event, 1)
				cfg := growing(s)
				cfg.OnEvent = func(e lease.Event) {
					select {
					case <-events:
					default:
					}
					events <- e
				}
				a := fixture.Start(t, cfg)
				g := ids(t, a)
				fixture.Wait(c.lives)
				s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
					return fixture.Hang(ctx)
				})
				until := item(t, s, a.NodeID()).IDsUntil()
				left := time.Until(until)
				if left < c.least || left > a.IDsLeft() || a.IDsLeft()-left > 3*time.Second {
					t.Errorf("the table says %v, the holder %v", left, a.IDsLeft())
				}
				fixture.Wait(left - time.Millisecond)
				if _, err := g.Next(); err != nil {
					t.Errorf("a moment before %v: %v", left, err)
				}
				if e := <-events; e.IDsLeft <= 0 || e.IDsLeft > left+3*time.Second {
					t.Errorf("the last event, %s, says %v, want more than 0 and at most %v", e.Kind, e.IDsLeft, left)
				}
				fixture.Wait(a.IDsLeft() + time.Millisecond)
				if id, err := g.TryNext(); err == nil {
					t.Errorf("made %v after the time that it said", id)
				}
				if got := a.IDsLeft(); got > 0 {
					t.Errorf("it makes no more IDs, and says %v", got)
				}
			})
		})
	}
}
