package discovery_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/discovery/discoverytest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Calls on values that no constructor returned, with a nil agent, offer or context, are
// errors, not panics.
func TestNilAndZero(t *testing.T) {
	zero.Methods(t, new(discovery.Directory), "discovery.New")
	zero.Methods(t, (*discovery.Directory)(nil), "discovery.New")
	zero.Methods(t, new(discovery.Lookup), "discovery.New")
	zero.Methods(t, new(discovery.Names), "discovery.New")
	zero.Methods(t, new(discovery.Directory).Services(), "discovery.New")
	zero.Methods(t, discovery.NewTable(nil, "leases"), "")
	zero.NilContext(t, "Sweep without a Store", discovery.Sweep)

	leases := leasetest.NewMemory("orders", 4)
	store := discoverytest.NewMemory(leases)
	zero.NilContext(t, "context is nil", store, func(ctx context.Context) error { _, err := discovery.Sweep(ctx, store, "orders"); return err })
	d, err := discovery.New(discovery.Config{Pool: "orders", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := lease.Start(t.Context(), lease.Config{Pool: "orders", Store: leases})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	service := discovery.Service{Name: "shop", Address: discovery.Address{Host: "10.0.0.7"}}
	for _, none := range []*lease.Agent{nil, new(lease.Agent)} {
		for name, err := range map[string]error{
			"Register":   d.Register(t.Context(), none, service),
			"Deregister": d.Deregister(t.Context(), none, service),
			"Leave":      d.Leave(t.Context(), none),
		} {
			if err == nil || !strings.Contains(err.Error(), "the agent is nil or zero") {
				t.Errorf("%s with a nil or zero agent: got %v, want an error", name, err)
			}
		}
	}
	for name, err := range map[string]error{
		"Register":   d.Register(t.Context(), agent, service, nil),
		"Deregister": d.Deregister(t.Context(), agent, service, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), "an offer is nil") {
			t.Errorf("%s with a nil offer: got %v, want an error", name, err)
		}
	}
	l, err := d.Service("shop")
	if err != nil {
		t.Fatal(err)
	}
	zero.NilContext(t, "context is nil",
		func(ctx context.Context) error { return d.Register(ctx, agent, service) },
		func(ctx context.Context) error { return d.Deregister(ctx, agent, service) },
		func(ctx context.Context) error { return d.Leave(ctx, agent) }, l.Resolve, d.Services().List)
	for range l.Watch(nil) { //nolint:staticcheck // a nil context never ends
		break
	}
}

// New returns an error if Store is a nil pointer.
func TestNilStore(t *testing.T) {
	if _, err := discovery.New(discovery.Config{Pool: "orders", Store: (*store)(nil)}); err == nil || !strings.Contains(err.Error(), "no Store") {
		t.Errorf("New with a nil pointer as its Store: got %v, want an error", err)
	}
}

type store struct{ discovery.Store }
