package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// suspendedFor is a holder whose lease is suspended at first.
type suspendedFor struct {
	lease.Provider
	until time.Time
	after error
	done  chan struct{}
}

func (s *suspendedFor) Done() <-chan struct{} { return s.done }

func (s *suspendedFor) Lease() (lease.Lease, error) {
	if time.Now().Before(s.until) {
		return lease.Lease{}, lease.ErrSuspended
	}
	return lease.Lease{NodeID: 7}, s.after
}

// If an outage begins between the claim and the first answer, serve waits until the outage
// is over. A signal, or the loss of the lease, ends the wait.
func TestServeWaitsForItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &suspendedFor{until: time.Now().Add(time.Minute), done: make(chan struct{})}
		if l, err := reliable(t.Context(), s); err != nil || l.NodeID != 7 || time.Now().Before(s.until) {
			t.Errorf("got node ID %d, %v, want 7 after a minute", l.NodeID, err)
		}
		s.until, s.after = time.Now().Add(time.Minute), lease.ErrLost
		if _, err := reliable(t.Context(), s); !errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		s.until = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := reliable(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
