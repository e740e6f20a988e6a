package leasepool_test

import (
	"context"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A pool without a store, and a nil context, cause errors and not panics.
func TestNilAndZero(t *testing.T) {
	for _, p := range []*leasepool.Pool{nil, new(leasepool.Pool)} {
		zero.Methods(t, p, "leasepool.Open")
	}
	for _, store := range []lease.Store{nil, (*protocol.DynamoDB)(nil), new(protocol.DynamoDB), lease.NewDynamoDB(nil, "leases")} {
		p := leasepool.Open(store, "orders")
		for name, call := range verbs(p) {
			if err := call(t.Context()); err == nil {
				t.Errorf("%s of a pool on a nil %T: got no error", name, store)
			}
		}
		zero.NilContext(t, "", func(context.Context) error { _, err := leasepool.Names(t.Context(), store); return err })
	}
	p := leasepool.Open(leasetest.NewMemory("orders", 4), "orders")
	for name, call := range verbs(p) {
		zero.NilContext(t, "context is nil", call)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	zero.NilContext(t, "context is nil", leasepool.Names)
}

// verbs returns all methods of a pool that take a context.
func verbs(p *leasepool.Pool) map[string]func(context.Context) error {
	only := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"Due":   func(ctx context.Context) error { return only(p.Due(ctx)) },
		"Force": func(ctx context.Context) error { return only(p.ForceRelease(ctx, 2, 0)) },
		"Leases": func(ctx context.Context) (err error) {
			for _, err = range p.Leases(ctx) {
			}
			return err
		},
		"Measure": func(ctx context.Context) error { return p.Measure(ctx, leasepool.Stats{}, time.Now()) },
		"Raise":   func(ctx context.Context) error { return only(p.Raise(ctx, time.Time{})) },
		"Reap":    func(ctx context.Context) error { return only(p.Reap(ctx)) },
		"Record":  p.Record,
		"Resize":  func(ctx context.Context) error { return only(p.Resize(ctx, leasepool.Spec{Size: 4})) },
		"Seed":    func(ctx context.Context) error { return only(p.Seed(ctx, leasepool.Spec{Size: 4})) },
		"Layout":  func(ctx context.Context) error { return only(p.SetLayout(ctx, snowflake.Default())) },
		"Stats":   func(ctx context.Context) error { return only(p.Stats(ctx)) },
		"Tend":    func(ctx context.Context) error { return only(p.Tend(ctx)) },
		"Widen":   func(ctx context.Context) error { return only(p.Widen(ctx)) },
	}
}
