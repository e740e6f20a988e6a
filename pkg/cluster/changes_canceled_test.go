package cluster_test

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
)

// inChanges returns the stacks of the goroutines that are in Changes.
func inChanges() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, ".Changes.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// If the context of Changes, or the node, ends at any request of a later heartbeat of
// the node, Changes ends at once and leaves no goroutine behind. After its
// context has ended, it yields nothing more, and the node and the other consumers
// continue.
func TestChangesIsCanceledAnywhere(t *testing.T) {
	for _, ends := range []string{"its context", "the node"} {
		t.Run("by "+ends, func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				tab := newTable(t, 0)
				n := join(t, dynamocoordinator.New(i.Client(tab.Client("a")), tab.Name), "a")
				var late, others []string
				var ended, canceled time.Time
				done, rest := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(rest)
					for e := range n.Changes(t.Context()) {
						others = append(others, names(e.State))
					}
				}()
				var other *cluster.Node
				_ = i.Run(t, time.Minute, func(ctx context.Context) error {
					defer context.AfterFunc(ctx, func() { canceled = time.Now() })()
					one := ctx
					if ends == "the node" {
						one = t.Context()
						defer context.AfterFunc(ctx, func() { _ = n.Close() })()
					}
					go func() {
						defer close(done)
						for e := range n.Changes(one) {
							if one.Err() != nil {
								late = append(late, names(e.State))
							}
						}
						ended = time.Now()
					}()
					fixture.Wait(0)
					other = join(t, dynamocoordinator.New(tab.Client("b"), tab.Name), "b") // a change
					fixture.Wait(timeout)                                                  // two rounds
					return nil
				})
				if canceled.IsZero() && ends == "the node" {
					_ = n.Close()
				}
				<-done
				if !canceled.IsZero() && ended != canceled {
					t.Errorf("it ended %v after %s, want at once", ended.Sub(canceled), ends)
				}
				if len(late) > 0 {
					t.Errorf("after its end: got the states %q, want none", late)
				}
				if ends == "its context" {
					if err := other.Close(); err != nil {
						t.Error(err)
					}
					fixture.Wait(settled)
					if got := names(n.State()); got != "a" || others[len(others)-1] != "a" {
						t.Errorf("another consumer: got %q at last and %q, want a", got, others)
					}
				}
				if err := n.Close(); err != nil {
					t.Error(err)
				}
				<-rest
				if left := inChanges(); left != "" {
					t.Errorf("left behind:\n%s", left)
				}
			})
		})
	}
}

// If the context of Changes ends while the consumer is busy, Changes yields nothing when
// the consumer comes back.
func TestChangesIsCanceledWhileItsConsumerIsBusy(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		n := join(t, c, "a")
		ctx, cancel := context.WithCancel(t.Context())
		next, stop := iter.Pull(n.Changes(ctx))
		defer stop()
		if e, ok := next(); !ok || names(e.State) != "a" {
			t.Errorf("got %q, %v, want a", names(e.State), ok)
		}
		join(t, c, "b")
		fixture.Wait(settled)
		if got := names(n.State()); got != "a b" {
			t.Fatalf("got the members %q, want a b", got)
		}
		cancel()
		if e, ok := next(); ok {
			t.Errorf("after the end of its context: got %q, want the end", names(e.State))
		}
	})
}
