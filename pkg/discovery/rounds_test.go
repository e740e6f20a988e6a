package discovery_test

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/discovery"
)

// watches contains one function for each kind of watch. Each of these returns a function
// that watches one lookup and yields the lengths of the lists.
var watches = map[string]func(t *testing.T, d *discovery.Directory) func(ctx context.Context) iter.Seq[int]{
	"Watch": func(t *testing.T, d *discovery.Directory) func(ctx context.Context) iter.Seq[int] {
		t.Helper()
		l, err := d.Service("shop")
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) iter.Seq[int] { return lengths(l.Watch(ctx)) }
	},
	"Names.Watch": func(_ *testing.T, d *discovery.Directory) func(ctx context.Context) iter.Seq[int] {
		names := d.Services()
		return func(ctx context.Context) iter.Seq[int] { return lengths(names.Watch(ctx)) }
	},
}

func lengths[T any](lists iter.Seq[[]T]) iter.Seq[int] {
	return func(yield func(int) bool) {
		lists(func(list []T) bool { return yield(len(list)) })
	}
}

// inside returns the stacks of the goroutines that are in a function whose name contains
// one of the texts.
func inside(names ...string) string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(stack, name) }) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// watcher is a consumer of a watch, in a goroutine of its own.
type watcher struct {
	seen []int     // what the watch yielded
	late []int     // what the watch yielded after the end of its context
	end  time.Time // when the watch ended
	done chan struct{}
}

// consume reads a watch.
func consume(ctx context.Context, watch func(ctx context.Context) iter.Seq[int]) *watcher {
	w := &watcher{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for n := range watch(ctx) {
			if w.seen = append(w.seen, n); ctx.Err() != nil {
				w.late = append(w.late, n)
			}
		}
		w.end = time.Now()
	}()
	fixture.Wait(0)
	return w
}

// If the context of a watch ends at any request of a later round, the watch ends
// at once, yields nothing more and leaves no goroutine behind. Another watch of the same
// lookup continues.
func TestLaterRoundsAreCanceledAnywhere(t *testing.T) {
	for name, watch := range watches {
		for change, then := range map[string]map[string]int{"nothing": {"Watch": 1, "Names.Watch": 1}, "another": {"Watch": 2, "Names.Watch": 2}, "the end": {"Watch": 0, "Names.Watch": 0}} {
			t.Run(name+" of "+change, func(t *testing.T) {
				fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
					s := newScene(t, i)
					direct := s.open(t, s.Client(""))
					if err := direct.Register(t.Context(), s.agent, shop); err != nil {
						t.Fatal(err)
					}
					other := fixture.Start(t, fixture.Config(s.Store("")))
					both := watch(t, s.directory)
					rest, stop := context.WithCancel(t.Context())
					defer stop()
					second := consume(rest, both)
					var w *watcher
					var canceled time.Time
					_ = i.Run(t, time.Minute, func(ctx context.Context) error {
						defer context.AfterFunc(ctx, func() { canceled = time.Now() })()
						w = consume(ctx, both)
						switch change {
						case "another":
							if err := direct.Register(t.Context(), other, shop, discovery.Service{Name: "shop-2", Address: shop.Address}); err != nil {
								t.Fatal(err)
							}
						case "the end":
							if err := s.agent.Close(); err != nil {
								t.Fatal(err)
							}
						}
						fixture.Wait(11 * time.Second) // two rounds
						return nil
					})
					<-w.done
					if !canceled.IsZero() && w.end != canceled {
						t.Errorf("it ended %v after its context, want at once", w.end.Sub(canceled))
					}
					if len(w.late) > 0 {
						t.Errorf("after the end of its context: got the lists %v, want none", w.late)
					}
					if got := second.seen[len(second.seen)-1]; got != then[name] {
						t.Errorf("the other watch: got %v, want %d at last", second.seen, then[name])
					}
					stop()
					<-second.done
					fixture.Wait(0)
					if left := inside("discovery.watch", "discovery.(*cached", "discovery.(*Directory).read"); left != "" {
						t.Errorf("left behind:\n%s", left)
					}
					s.Count(" Query")
					fixture.Wait(time.Minute)
					if got := s.Count(" Query"); got > 0 {
						t.Errorf("afterwards: got %d queries, want none", got)
					}
					again := consume(t.Context(), both)
					fixture.Wait(time.Second) // after a failed read, the directory does not read for a second
					if len(again.seen) != 1 || again.seen[0] != then[name] {
						t.Errorf("another watch: got %v, want [%d]", again.seen, then[name])
					}
				})
			})
		}
	}
}

// If the context of a watch ends while the consumer is busy, the watch sends no request
// and yields nothing when the consumer comes back.
func TestWatchIsCanceledWhileItsConsumerIsBusy(t *testing.T) {
	for name, watch := range watches {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := newScene(t, &fixture.Interruption{})
				direct := s.open(t, s.Client(""))
				if err := direct.Register(t.Context(), s.agent, shop); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				next, stop := iter.Pull(watch(t, direct)(ctx))
				defer stop()
				if n, ok := next(); n != 1 || !ok {
					t.Errorf("got %d, %v, want 1", n, ok)
				}
				if err := s.agent.Close(); err != nil { // so that there is a change to yield
					t.Fatal(err)
				}
				fixture.Wait(time.Minute)
				cancel()
				s.Count(" Query")
				if n, ok := next(); ok {
					t.Errorf("after the end of its context: got %d, want the end", n)
				}
				if got := s.Count(" Query"); got > 0 {
					t.Errorf("after the end of its context: got %d queries, want none", got)
				}
			})
		})
	}
}
