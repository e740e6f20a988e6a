package leaselambda_test

import (
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaselambda"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Calls on values that no constructor returned, and calls with a nil context, return
// errors.
func TestNilAndZero(t *testing.T) {
	zero.Methods(t, new(leaselambda.Agent), "leaselambda.New")
	zero.Methods(t, (*leaselambda.Agent)(nil), "leaselambda.New")
	zero.Methods(t, leaselambda.IDs{}, "leaselambda.New")
	zero.Methods(t, leaselambda.Generator(nil), "no agent") //nolint:staticcheck // the case
	a, err := leaselambda.New(lease.Config{Pool: "orders", Store: leasetest.NewMemory("orders", 4)})
	if err != nil {
		t.Fatal(err)
	}
	zero.NilContext(t, "context is nil", a)
	zero.Methods(t, a.Generator(nil), "context is nil") //nolint:staticcheck // the case
	if _, err := leaselambda.Lease(nil); err == nil {   //nolint:staticcheck // the case
		t.Error("Lease with a nil context: got no error")
	}
}
