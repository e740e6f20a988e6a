package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// In an outage, a process is frozen for five seconds after each short call. After the outage,
// its calls leave the lease that expired in it to its holder, which resumes.
func TestSparseCallsNoticeAnOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &away{Memory: leasetest.NewMemory("orders", 1)}
		a := fixture.Start(t, fixture.Config(s))
		o, _ := onDemand(t, s)
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Fatalf("before the outage: got %v, want %v", err, lease.ErrPoolExhausted)
		}
		s.gone.Store(true)
		fixture.Wait(time.Second)
		for range 60 {
			brief(t, o)
			fixture.Wait(5 * time.Second)
		}
		s.gone.Store(false)
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Errorf("after the outage: got %v, want %v", err, lease.ErrPoolExhausted)
		}
		fixture.Wait(3 * time.Second)
		if _, err := a.Lease(); err != nil {
			t.Errorf("the holder: got %v, want its lease after the outage", err)
		}
	})
}

// A claim with a clock that is 1.4 s ahead, which is within the limit, accepts a node ID that
// is reserved for its last holder for another 2.2 s. Then the clock is put right. The call
// waits for the end of the reservation, and does not ask anybody to repair the clock.
func TestClockPutRightAfterAClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(1), leasetest.NewClock(1400*time.Millisecond)
		reserved := time.Now().Add(2200 * time.Millisecond)
		if _, err := s.Memory.Write(t.Context(), protocol.Raise{Key: protocol.Key{Pool: "orders"}, To: reserved}); err != nil {
			t.Fatal(err)
		}
		once[protocol.Claim](s, func(_ context.Context, do func() (protocol.Result, error)) (protocol.Result, error) {
			res, err := do()
			clock.Step(-1400 * time.Millisecond)
			return res, err
		})
		cfg := fixture.Config(toldTime{s})
		cfg.Clock = clock
		o, err := lease.NewOnDemand(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.Close() })
		refresh(t, o)
		if _, err := o.Lease(); err != nil || time.Now().Before(reserved) {
			t.Errorf("got %v at %v, want a lease after %v", err, time.Now(), reserved)
		}
	})
}
