package leasefixed_test

import (
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
)

// Calls on a node that New did not return cause errors and not panics.
func TestZeroNode(t *testing.T) {
	zero.Methods(t, new(leasefixed.Node), "leasefixed.New")
	zero.Methods(t, (*leasefixed.Node)(nil), "leasefixed.New")
	if n := new(leasefixed.Node).NodeID(); n != -1 {
		t.Errorf("node ID of a zero Node: got %d, want -1", n)
	}
}
