package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/zero"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/cluster/pgcoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Calls on values that no constructor returned, and with a nil context, are errors, not
// panics.
func TestNilAndZero(t *testing.T) {
	zero.Methods(t, new(cluster.Node), "cluster.Start")
	zero.Methods(t, (*cluster.Node)(nil), "cluster.Start")
	for _, c := range []cluster.Coordinator{
		new(dynamocoordinator.Coordinator), dynamocoordinator.New(nil, "leases"), dynamocoordinator.New((*badClient)(nil), "leases"),
		new(pgcoordinator.Coordinator), pgcoordinator.New(nil), new(clustertest.Memory),
	} {
		zero.Methods(t, c, "")
		for _, beat := range []cluster.Beat{{}, {Self: cluster.Member{NodeID: cluster.NoNodeID}}, {Oldest: true}} {
			if _, err := c.Heartbeat(t.Context(), beat); err == nil {
				t.Errorf("%T: a heartbeat without a backend: got no error", c)
			}
		}
	}
	n := join(t, clustertest.NewMemory(), "anna")
	zero.NilContext(t, "context is nil", clustertest.NewMemory(), n.Publish, n.WaitKnown, func(ctx context.Context) error {
		_, err := cluster.Start(ctx, cluster.Config{Cluster: "orders", Name: "ben", Coordinator: clustertest.NewMemory()})
		return err
	})
	for range n.Changes(nil) { //nolint:staticcheck // a nil context never ends
		break
	}
	_, err := cluster.Start(t.Context(), cluster.Config{Cluster: "orders", Name: "ben", Coordinator: (*dynamocoordinator.Coordinator)(nil)})
	if err == nil || !strings.Contains(err.Error(), "Coordinator is missing") {
		t.Errorf("Start with a nil pointer as its Coordinator: got %v, want an error", err)
	}
	_, err = cluster.Start(t.Context(), cluster.Config{Cluster: "orders", Name: "ben", Coordinator: clustertest.NewMemory(), Listeners: []cluster.Listener{nil}})
	if err == nil || !strings.Contains(err.Error(), "at 0 of 1 is nil") {
		t.Errorf("Start with a nil listener: got %v, want an error", err)
	}
	_, err = cluster.Start(t.Context(), cluster.Config{Cluster: "orders", Name: "ben", Coordinator: clustertest.NewMemory(), Agent: new(lease.Agent)})
	if !errors.Is(err, cluster.ErrLease) {
		t.Errorf("Start with a zero Agent: got %v, want %v", err, cluster.ErrLease)
	}
}

// badClient is a client that is always a nil pointer.
type badClient struct{ lease.Client }
