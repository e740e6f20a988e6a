//go:build unix

package lease_test

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// A real signal ends the context of the callback, and the node ID is released afterwards.
func TestRunOnSignal(t *testing.T) {
	s := leasetest.NewMemory("orders", 1)
	err := lease.Run(t.Context(), fixture.Config(s), func(ctx context.Context, a *lease.Agent) error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		if _, err := a.Lease(); err != nil {
			t.Errorf("not held while draining: %v", err)
		}
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	if l := fixture.Item(t, s, 0); l.Holder != "" || l.Version != 1 {
		t.Errorf("not given back: %+v", l)
	}
}

func TestRunOnLoss(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		err := lease.Run(t.Context(), fixture.Config(s), func(ctx context.Context, a *lease.Agent) error {
			fixture.Take(t, s, a)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), lease.ErrLost) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		if !errors.Is(err, lease.ErrLost) || errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want lease.ErrLost", err)
		}
	})
}

func TestRunReturnsErrors(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		broken := errors.New("broken")
		if err := lease.Run(t.Context(), fixture.Config(s), func(context.Context, *lease.Agent) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v, want fn's own error", err)
		}
		if err := lease.Run(t.Context(), fixture.Config(s), func(context.Context, *lease.Agent) error { return nil }); err != nil {
			t.Error(err)
		}
		err := lease.Run(t.Context(), fixture.Config(s), func(context.Context, *lease.Agent) error {
			s.SetOutage(errors.New("away"))
			return nil
		})
		if err == nil {
			t.Error("a release without answer is silent")
		}
		s.SetOutage(nil)
		fixture.Wait(time.Minute)
		if err := lease.Run(t.Context(), lease.Config{}, nil); err == nil {
			t.Error("an empty Config runs")
		}
	})
}

// If the function panics or calls runtime.Goexit instead of returning, the lease is still
// released.
func TestRunOfAFunctionThatFails(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("oh no") }, "goexit": runtime.Goexit} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_ = lease.Run(t.Context(), fixture.Config(s), func(context.Context, *lease.Agent) error {
					fail()
					return nil
				})
			}()
			<-ended
			if l := fixture.Item(t, s, 0); l.Holder != "" || l.Version != 1 {
				t.Errorf("%s: left %+v, want it given back", name, l)
			}
		})
	}
	if err := lease.Run(t.Context(), fixture.Config(fixture.NewNetwork(1)), nil); err == nil {
		t.Error("a nil function runs")
	}
}
