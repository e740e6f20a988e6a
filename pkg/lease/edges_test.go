package lease_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// The edges of the API: contexts that end anywhere, and values at the ends of their
// types.

// interrupted cancels a context at the nth call to a store, before the call is done
// or after it.
type interrupted struct {
	*fixture.Network
	calls, nth int
	after      bool
	cancel     context.CancelFunc
}

func (i *interrupted) call() (done func()) {
	i.calls++
	if i.calls != i.nth {
		return func() {}
	}
	if !i.after {
		i.cancel()
	}
	return i.cancel
}

func (i *interrupted) Check(ctx context.Context) error {
	defer i.call()()
	return i.Network.Check(ctx)
}

func (i *interrupted) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	defer i.call()()
	return i.Network.PoolItem(ctx, pool)
}

func (i *interrupted) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	defer i.call()()
	return i.Network.Group(ctx, pool, n)
}

func (i *interrupted) Get(ctx context.Context, pool string, node int) (*lease.Lease, error) {
	defer i.call()()
	return i.Network.Get(ctx, pool, node)
}

func (i *interrupted) Note(ctx context.Context, pool string) (protocol.Note, error) {
	defer i.call()()
	return i.Network.Note(ctx, pool)
}

func (i *interrupted) WriteNote(ctx context.Context, w protocol.NoteWrite) (protocol.Note, bool, error) {
	defer i.call()()
	return i.Network.WriteNote(ctx, w)
}

func (i *interrupted) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	defer i.call()()
	return i.Network.Write(ctx, w)
}

// A start whose context ends, at whichever call and wait, ends at once and leaves no
// node ID held.
func TestStartIsCanceledAnywhere(t *testing.T) {
	for nth := 1; nth <= 16; nth++ {
		for _, after := range []bool{false, true} {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(2)
				fixture.Hold(t, s, 0, time.Now(), time.Minute)
				fixture.Hold(t, s, 1, time.Now(), 10*time.Second) // so that it looks and waits first
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				store := &interrupted{Network: s, nth: nth, after: after, cancel: cancel}
				cfg := fixture.Config(store)
				cfg.Wait = time.Minute
				a, err := lease.Start(ctx, cfg)
				if a != nil {
					_ = a.Close() // it was started before the nth call
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("call %d: got %v, want canceled", nth, err)
				}
				for n := range 2 {
					if l := item(t, s, n); l.Holder != "" && l.Task == "test" {
						t.Errorf("call %d, after it: %v: left %+v", nth, after, l)
					}
				}
			})
		}
	}
}

// It ends, too, while the node ID is still reserved for its last holder.
func TestStartIsCanceledBeforeNotBefore(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(0)
		// Reserved for 900 ms: within the claim guard, so it can be claimed.
		if _, err := leasepool.Open(s, "orders").Seed(t.Context(), leasepool.Spec{Size: 1, Floor: time.Now().Add(900 * time.Millisecond)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := lease.Start(ctx, fixture.Config(s)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if l := item(t, s, 0); l.Holder != "" {
			t.Errorf("left %+v", l)
		}
	})
}

// Durations at the ends of their type are errors, or mean what they say; none wraps.
func TestExtremeDurations(t *testing.T) {
	fields := map[string]func(*lease.Config) *time.Duration{
		"TTL": func(c *lease.Config) *time.Duration { return &c.TTL }, "RenewEvery": func(c *lease.Config) *time.Duration { return &c.RenewEvery },
		"Guard": func(c *lease.Config) *time.Duration { return &c.Guard }, "ClaimGuard": func(c *lease.Config) *time.Duration { return &c.ClaimGuard },
		"Reserve": func(c *lease.Config) *time.Duration { return &c.Reserve }, "Wait": func(c *lease.Config) *time.Duration { return &c.Wait },
		"MaxTTL": func(c *lease.Config) *time.Duration { return &c.MaxTTL }, "MaxReserve": func(c *lease.Config) *time.Duration { return &c.MaxReserve },
	}
	const longest = math.MaxInt64 / time.Millisecond * time.Millisecond
	for name, field := range fields {
		for _, d := range []time.Duration{math.MinInt64, -1, -time.Millisecond, math.MaxInt64, longest} {
			fixture.Virtual(t, func(t *testing.T) {
				cfg := fixture.Config(fixture.NewNetwork(1))
				*field(&cfg) = d
				a, err := lease.Start(t.Context(), cfg)
				if want := name == "Wait" && d > 0; (err == nil) != want {
					t.Errorf("%s %v: got %v, want it taken: %v", name, d, err, want)
				}
				if a != nil {
					_ = a.Close()
				}
				if name != "TTL" {
					return
				}
				o, err := lease.NewOnDemand(cfg)
				if o != nil || err == nil || strings.Contains(err.Error(), "Max") {
					t.Errorf("on demand, TTL %v: got %v, want it refused by its name alone", d, err)
				}
			})
		}
	}
}

// Every method may be called after Close, again and at once with others.
func TestMethodsAfterClose(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		a := fixture.Start(t, fixture.Config(fixture.NewNetwork(1)))
		fixture.Together(8, func(int) { _ = a.Close() })
		_, err := a.Lease()
		if !errors.Is(err, lease.ErrClosed) || !errors.Is(a.Err(), lease.ErrClosed) {
			t.Errorf("got %v, %v, want ErrClosed", err, a.Err())
		}
		a.BeforeResume(func() {})
		_ = a.SetMetadata(nil)
		_, _ = a.Left(), a.Renewed()
		if a.NodeID() != 0 || a.Pool() != "orders" || a.Timeline() == nil {
			t.Error("an agent that has ended forgot what it was")
		}
	})
}
