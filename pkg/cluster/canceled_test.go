package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

// If the context of Start ends at any request, Start returns at once. The agent
// keeps running and nothing of the node is left. The next Start takes part, as one
// member.
func TestStartIsCanceledAnywhere(t *testing.T) {
	for _, leased := range []bool{true, false} {
		t.Run(map[bool]string{true: "leased", false: "without a lease"}[leased], func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				size := 0
				if leased {
					size = 4
				}
				tab := newTable(t, size)
				cfg := cluster.Config{Cluster: "orders", Name: "b", Coordinator: dynamocoordinator.New(i.Client(tab.Client("b")), tab.Name), Logger: silent}
				var other *cluster.Node
				if leased {
					_, other = tab.leased(t, "a")
					// The agent's requests count, since a start waits for its renewal.
					cfg.Agent = fixture.Start(t, fixture.Config(lease.NewDynamoDB(i.Client(tab.Client("b")), tab.Name)))
				} else {
					other = join(t, dynamocoordinator.New(tab.Client("a"), tab.Name), "a")
				}
				var n *cluster.Node
				err := i.Run(t, 0, func(ctx context.Context) (err error) {
					n, err = cluster.Start(ctx, cfg)
					return err
				})
				if (n == nil) == (err == nil) {
					t.Errorf("got the node %v and the error %v, want one of them", n, err)
				}
				if n == nil {
					if leased {
						fixture.Wait(timeout) // after the next renewal, the lease has no metadata of a node
						l, err := cfg.Agent.Lease()
						if err != nil || l.Metadata["node"] != "" {
							t.Errorf("the agent's lease: got %+v, %v; want one without a node", l, err)
						}
					}
					if n, err = cluster.Start(t.Context(), cfg); err != nil {
						t.Fatal(err)
					}
				}
				defer n.Close()
				fixture.Wait(settled)
				if got := names(other.State()); got != "a b" {
					t.Errorf("the other node: got the members %q, want a b", got)
				}
			})
		})
	}
}

// If the context of Publish or WaitKnown ends at any request, the call returns at
// once, and can be repeated.
func TestKnownIsCanceledAnywhere(t *testing.T) {
	for name, call := range map[string]func(n *cluster.Node, ctx context.Context) error{
		"Publish": func(n *cluster.Node, ctx context.Context) error {
			return n.Publish(ctx, cluster.Versions{n.Self().Key(): n.Self().Version})
		},
		"WaitKnown": (*cluster.Node).WaitKnown,
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				tab := newTable(t, 0)
				join(t, dynamocoordinator.New(tab.Client("a"), tab.Name), "a", publish)
				_ = join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b").Close() // so that the next b has a predecessor
				n := join(t, dynamocoordinator.New(i.Client(tab.Client("b")), tab.Name), "b")
				_ = i.Run(t, 0, func(ctx context.Context) error { return call(n, ctx) })
				if err := call(n, t.Context()); err != nil {
					t.Errorf("again: got %v, want nil", err)
				}
			})
		})
	}
}

// hanging is a backend whose first Publish hangs until its context ends.
type hanging struct {
	*clustertest.Memory
	began chan struct{}
	again atomic.Bool
}

func (h *hanging) Publish(ctx context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	if h.again.Swap(true) {
		return h.Memory.Publish(ctx, m, revision, known)
	}
	close(h.began)
	<-ctx.Done()
	return ctx.Err()
}

// A Publish that waits for an earlier Publish also returns when its own context ends.
func TestPublishIsCanceledWhileItWaits(t *testing.T) {
	h := &hanging{Memory: clustertest.NewMemory(), began: make(chan struct{})}
	n := join(t, h, "anna")
	first, end := context.WithCancel(t.Context())
	defer end()
	returned := make(chan error, 2)
	go func() { returned <- n.Publish(first, nil) }()
	<-h.began
	second, cancel := context.WithCancel(t.Context())
	cancel()
	go func() { returned <- n.Publish(second, nil) }()
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	case <-time.After(10 * time.Second): // real time: a lock does not count as waiting in virtual time
		t.Error("got no return while another publication hangs, want one")
	}
	end()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: got %v, want %v", err, context.Canceled)
	}
	if err := n.Publish(t.Context(), nil); err != nil {
		t.Errorf("again: got %v, want nil", err)
	}
}
