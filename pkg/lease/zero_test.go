package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Calls on values that no constructor returned cause errors and not panics.
func TestZeroValues(t *testing.T) {
	for _, v := range []lease.Provider{new(lease.Agent), (*lease.Agent)(nil), new(lease.OnDemand), (*lease.OnDemand)(nil)} {
		zero.Methods(t, v, "nil or zero")
		if _, err := v.Lease(); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("%T: Lease: got %v, want %v", v, err, lease.ErrClosed)
		}
		select {
		case <-v.Done():
		default:
			t.Errorf("%T: Done is open, want it closed", v)
		}
		if _, err := snowflake.New(v); err == nil {
			t.Errorf("%T: a generator on it: got no error", v)
		}
	}
	zero.Methods(t, new(protocol.DynamoDB), "")
	for _, c := range []*leasetest.Clock{nil, new(leasetest.Clock)} {
		zero.Methods(t, c, "")
		if off := time.Until(c.Wall()).Abs(); off > time.Minute {
			t.Errorf("the wall clock of %v: got %v off, want this machine's", c, off)
		}
	}
	zero.Methods(t, lease.NewDynamoDB(nil, "leases"), "")
	zero.NilContext(t, "context is nil", leasetest.NewMemory("orders", 4))
	if _, err := lease.Start(t.Context(), lease.Config{Pool: "orders", Store: new(leasetest.Memory)}); err == nil || !strings.Contains(err.Error(), "NewMemory") {
		t.Errorf("Start with a zero Memory: got %v, want an error", err)
	}
}

// A call with a nil context returns an error at once.
func TestNilContext(t *testing.T) {
	cfg := lease.Config{Pool: "orders", Store: leasetest.NewMemory("orders", 4)}
	demand, err := lease.NewOnDemand(cfg)
	if err != nil {
		t.Fatal(err)
	}
	zero.NilContext(t, "context is nil", lease.Open, lease.OpenClient, demand,
		func(ctx context.Context) error { _, err := lease.Start(ctx, cfg); return err },
		func(ctx context.Context) error {
			return lease.Run(ctx, cfg, func(context.Context, *lease.Agent) error { return nil })
		})
}

// If Config.Store contains a nil pointer, Start returns an error that names its type.
func TestNilStore(t *testing.T) {
	for _, store := range []lease.Store{(*protocol.DynamoDB)(nil), (*leasetest.Memory)(nil)} {
		cfg := lease.Config{Pool: "orders", Store: store}
		_, err := lease.Start(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "Store is a nil *") {
			t.Errorf("Start with a nil %T: got %v, want an error with its type", store, err)
		}
		if _, err := lease.NewOnDemand(cfg); err == nil || !strings.Contains(err.Error(), "Store is a nil *") {
			t.Errorf("NewOnDemand with a nil %T: got %v, want an error with its type", store, err)
		}
	}
	cfg := lease.Config{Pool: "orders", Store: lease.NewDynamoDB(nil, "leases")}
	if _, err := lease.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no client") {
		t.Errorf("Start with a store without a client: got %v, want an error", err)
	}
	cfg = lease.Config{Pool: "orders", Store: leasetest.NewMemory("orders", 4), Clock: (*leasetest.Clock)(nil)}
	if _, err := lease.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "Clock is a nil *") {
		t.Errorf("Start with a nil Clock: got %v, want an error", err)
	}
}
