package leasepool_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// If a verb's context ends at any request, the verb returns within 2 s, leaves no
// goroutine behind, and can be run again. Reap needs the 2 s to record the failure.
func TestVerbsAreCanceledAnywhere(t *testing.T) {
	for name := range verbs(nil) {
		t.Run(name, func(t *testing.T) {
			for nth := int64(1); ; nth++ {
				ended := false
				fixture.Virtual(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var calls atomic.Int64
					s := every{&faulty{Memory: leasetest.NewMemory("orders", 4), fail: func(string) error {
						if calls.Add(1) == nth {
							cancel()
						}
						return nil
					}}}
					fixture.Hold(t, s.Memory, 1, time.Now(), 15*time.Second)
					fixture.Wait(time.Hour) // the lease is due
					p := leasepool.Open(s, "orders")
					began := time.Now()
					err := verbs(p)[name](ctx)
					ended = calls.Load() < nth
					if took := time.Since(began); took > 2*time.Second || !ended && err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("canceled at request %d: got %v after %v, want the context's error within 2s", nth, err, took)
					}
					if err := verbs(p)[name](t.Context()); err != nil {
						t.Errorf("run again after request %d: got %v, want nil", nth, err)
					}
				})
				if ended || t.Failed() {
					return
				}
			}
		})
	}
}

// every also calls fail for the two kinds of requests for which faulty does not call it.
type every struct{ *faulty }

func (s every) Get(ctx context.Context, pool string, node int) (*protocol.Lease, error) {
	_ = s.fail("get")
	return s.Memory.Get(ctx, pool, node)
}

func (s every) WritePool(ctx context.Context, w protocol.PoolWrite) (protocol.PoolResult, error) {
	_ = s.fail("write pool")
	return s.Memory.WritePool(ctx, w)
}
