package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// An outage longer than the lease: the holder suspends at its deadline, makes
// no ID, and resumes the same version when the store is back.
func TestSuspendAndResume(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var ev events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.add
		a := fixture.Start(t, cfg)
		g := ids(t, a)
		was, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		s.SetOutage(errors.New("away"))
		fixture.Wait(13*time.Second - time.Millisecond)
		if _, err := a.Lease(); err != nil {
			t.Fatalf("a millisecond before the deadline: %v", err)
		}
		if _, err := g.Next(); err != nil {
			t.Fatalf("a millisecond before the deadline: %v", err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Fatalf("at the deadline: %v", err)
		}
		if _, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
			t.Fatalf("at the deadline: %v", err)
		}
		fixture.Wait(10 * time.Minute)
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		s.SetOutage(nil)
		fixture.Wait(2 * time.Second)
		now, err := a.Lease()
		if err != nil || now.Version != was.Version || now.NodeID != was.NodeID || now.Holder != was.Holder {
			t.Fatalf("%+v, %v, want %+v again", now, err, was)
		}
		if _, err := g.Next(); err != nil {
			t.Error(err)
		}
		if got, want := ev.kinds(lease.EventSuspended, lease.EventResumed), []lease.EventKind{lease.EventSuspended, lease.EventResumed}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestOnExpiryStop(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		cfg := fixture.Config(s)
		cfg.OnExpiry = lease.Stop
		a := fixture.Start(t, cfg)
		s.SetOutage(errors.New("away"))
		fixture.Wait(13*time.Second - time.Millisecond)
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		fixture.Wait(time.Millisecond)
		<-a.Done()
		if !errors.Is(a.Err(), lease.ErrLost) {
			t.Error(a.Err())
		}
		s.SetOutage(nil)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := item(t, s, a.NodeID()); l.Holder != "" {
			t.Errorf("not given back: %+v", l)
		}
	})
}

// The watchdog runs separately from the loop: a request that hangs forever does not
// hide that time is up.
func TestHungRequestSuspends(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var ev events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.add
		release := make(chan struct{})
		defer close(release)
		a := fixture.Start(t, cfg)
		s.On(func(context.Context, protocol.Write, func() (protocol.Result, error)) (protocol.Result, error) {
			<-release // not even the context's end is heard
			return protocol.Result{}, errors.New("gone")
		})
		fixture.Wait(13 * time.Second)
		if len(ev.of(lease.EventSuspended)) != 1 {
			t.Error("not announced at the deadline")
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Error(err)
		}
		s.On(nil)
	})
}
