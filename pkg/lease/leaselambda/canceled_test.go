package leaselambda_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaselambda"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// invocation is the context of an invocation with a time-out.
func invocation(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithTimeout(ctx, limit)
	return lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "b5a1e0c4"}), end
}

// states are the states that an environment can be in when an invocation begins.
var states = []string{"first use", "good", "expired", "taken"}

// function is a Lambda function in one of the states. It uses a new table with 4 node
// IDs, and its agent's requests are interrupted.
type function struct {
	*fixture.Table
	agent *leaselambda.Agent
	ids   map[snowflake.ID]bool
}

func newFunction(t *testing.T, i *fixture.Interruption, state string) *function {
	t.Helper()
	tab := fixture.NewTable(t, 4)
	a, err := leaselambda.New(fixture.Config(lease.NewDynamoDB(i.Client(tab.Client("function")), tab.Name)))
	if err != nil {
		t.Fatal(err)
	}
	f := &function{tab, a, map[snowflake.ID]bool{}}
	if state == "first use" {
		return f
	}
	var held lease.Lease
	f.invoke(t, func(ctx context.Context) (err error) {
		held, err = leaselambda.Lease(ctx)
		return errors.Join(err, f.make(t, ctx))
	})
	switch state {
	case "good":
		fixture.Wait(4 * time.Minute) // of 5
	case "expired":
		fixture.Wait(time.Hour)
	case "taken":
		fixture.Wait(time.Hour)
		now := time.Now()
		res, err := tab.Store("").Write(t.Context(), protocol.Claim{
			Key: protocol.Key{Pool: "orders", NodeID: held.NodeID}, Session: "thief", Task: "another task", At: now, ClaimGuard: time.Second,
			ExpiresAt: now.Add(time.Hour), ReservedUntil: now.Add(time.Hour + time.Second),
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
	}
	return f
}

// make makes an ID with each kind of call, and fails the test if an ID is repeated.
func (f *function) make(t *testing.T, ctx context.Context) error {
	t.Helper()
	ids := make([]snowflake.ID, 3)
	n, err := leaselambda.Generator(ctx).NextN(ids)
	if (n < len(ids)) != (err != nil) {
		t.Errorf("got %d of %d IDs and the error %v", n, len(ids), err)
	}
	for _, id := range ids[:n] {
		if f.ids[id] {
			t.Errorf("%v was made twice", id)
		}
		f.ids[id] = true
	}
	return err
}

// invoke runs a handler in an invocation that is not canceled, and fails the test if the
// handler fails.
func (f *function) invoke(t *testing.T, handler func(ctx context.Context) error) {
	t.Helper()
	ctx, end := invocation(t.Context(), 10*time.Second)
	defer end()
	if err := handler(f.agent.Context(ctx)); err != nil {
		t.Errorf("an invocation: got %v, want nil", err)
	}
}

// requests counts the function's requests since the last call.
func (f *function) requests() (n int) {
	for _, call := range []string{"DescribeTable", "GetItem", "Query", "UpdateItem"} {
		n += f.Count("function " + call)
	}
	return n
}

// close closes the agent as SIGTERM does, and fails the test if a node ID stays held.
func (f *function) close(t *testing.T, state string) {
	t.Helper()
	began := time.Now()
	if err := f.agent.Close(); err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("Close: got %v after %v, want nil within 3 s", err, time.Since(began))
	}
	if got := f.Held(t, 4, "test"); got != 0 && state != "expired" { // an expired lease needs no release
		t.Errorf("after Close: got %d node IDs held, want none", got)
	}
}

// uses are what a handler does with its context.
var uses = map[string]func(f *function, t *testing.T, ctx context.Context) error{
	"Next": func(f *function, t *testing.T, ctx context.Context) error {
		id, err := leaselambda.Generator(ctx).Next()
		if (id == 0) != (err != nil) || f.ids[id] {
			t.Errorf("got the ID %v and the error %v, want a new ID or an error", id, err)
		}
		f.ids[id] = err == nil
		return err
	},
	"NextN": func(f *function, t *testing.T, ctx context.Context) error { return f.make(t, ctx) },
	"Lease": func(_ *function, _ *testing.T, ctx context.Context) error {
		_, err := leaselambda.Lease(ctx)
		return err
	},
}

// If an invocation's context ends at any request, the invocation returns at once.
// From then on, no request is sent until the next invocation or SIGTERM. The next
// invocation holds one node ID and makes new IDs. After SIGTERM, no node ID is held.
func TestInvocationIsCanceledAnywhere(t *testing.T) {
	for _, state := range states {
		for name, use := range uses {
			for _, again := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s again %v", name, state, again), func(t *testing.T) {
					fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
						f := newFunction(t, i, state)
						err := i.Run(t, 0, func(ctx context.Context) error {
							ctx, end := invocation(ctx, 10*time.Second)
							defer end()
							return use(f, t, f.agent.Context(ctx))
						})
						fixture.Wait(time.Second) // a request in another context, which the interruption also ends
						f.requests()
						fixture.Wait(time.Minute)
						if got := f.requests(); got != 0 {
							t.Errorf("between two invocations: got %d requests, want 0", got)
						}
						if again {
							f.invoke(t, func(ctx context.Context) error {
								_, err := leaselambda.Lease(ctx)
								return errors.Join(err, f.make(t, ctx))
							})
							if got := f.Held(t, 4, "test"); got != 1 {
								t.Errorf("got %d node IDs held, want 1", got)
							}
							if err != nil {
								f.invoke(t, func(ctx context.Context) error { return use(f, t, ctx) })
							}
							state = "held"
						}
						f.close(t, state)
					})
				})
			}
		}
	}
}

// SIGTERM at any request of an invocation ends the invocation's calls with
// ErrClosed, and leaves no node ID held.
func TestInvocationIsTerminatedAnywhere(t *testing.T) {
	for _, state := range states {
		for name, use := range uses {
			t.Run(name+" "+state, func(t *testing.T) {
				fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
					f := newFunction(t, i, state)
					i.Instead, i.Want = func() { f.close(t, state) }, lease.ErrClosed
					_ = i.Run(t, 5*time.Millisecond, func(ctx context.Context) error {
						ctx, end := invocation(ctx, 10*time.Second)
						defer end()
						err := use(f, t, f.agent.Context(ctx))
						if errors.Is(err, snowflake.ErrClosed) { // between the claim and the ID
							return lease.ErrClosed
						}
						return err
					})
					f.close(t, state)
				})
			})
		}
	}
}

// The release at SIGTERM does not depend on the invocation, whose context
// may end at any request of the release.
func TestReleaseOutlivesTheInvocation(t *testing.T) {
	for _, state := range states {
		t.Run(state, func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				f := newFunction(t, i, state)
				_ = i.Run(t, 3*time.Second, func(ctx context.Context) error {
					ctx, end := invocation(ctx, 10*time.Second)
					defer end()
					ctx = f.agent.Context(ctx)
					err := f.make(t, ctx)
					f.close(t, state)
					if again := f.make(t, ctx); !errors.Is(again, lease.ErrClosed) && !errors.Is(again, context.Canceled) {
						t.Errorf("after SIGTERM: got %v, want ErrClosed or the end of the invocation", again)
					}
					return err
				})
			})
		})
	}
}

// A call that waits for the clock ends when its context ends, and before the invocation's
// deadline, however long WithMaxWait allows it to wait.
func TestWaitForTheClockIsCanceled(t *testing.T) {
	const full = 10 * time.Second // of the invocation
	for name, c := range map[string]struct {
		maxWait, back, cancel, further time.Duration // further is how far the clock is set back after 100 ms
		atLeast, atMost                time.Duration
		want                           error
	}{
		"it is canceled":          {2 * time.Second, 1800 * time.Millisecond, 100 * time.Millisecond, 0, 100 * time.Millisecond, 110 * time.Millisecond, context.Canceled},
		"the invocation ends":     {time.Hour, time.Minute, full, 0, 9 * time.Second, 9600 * time.Millisecond, context.DeadlineExceeded},
		"the clock is far behind": {time.Second, 1800 * time.Millisecond, full, 0, 0, 0, new(snowflake.ClockError)},
		"the clock is set back":   {2 * time.Second, 1800 * time.Millisecond, full, time.Hour, 100 * time.Millisecond, 300 * time.Millisecond, new(snowflake.ClockError)},
		"the clock has caught up": {2 * time.Second, 1800 * time.Millisecond, full, 0, 1700 * time.Millisecond, 1800 * time.Millisecond, nil},
	} {
		for call, use := range uses {
			if call == "Lease" {
				continue // which makes no ID
			}
			t.Run(call+" "+name, func(t *testing.T) {
				fixture.Virtual(t, func(t *testing.T) {
					tab := fixture.NewTable(t, 4)
					clock := &frozen{Clock: snowflake.SystemClock()}
					cfg := fixture.Config(tab.Store(""))
					cfg.Clock = steady{clock}
					a, err := leaselambda.New(cfg, snowflake.WithMaxWait(c.maxWait))
					if err != nil {
						t.Fatal(err)
					}
					f := &function{tab, a, map[snowflake.ID]bool{}}
					f.invoke(t, func(ctx context.Context) error { return f.make(t, ctx) })
					clock.lag.Add(int64(c.back))
					fixture.Wait(20 * time.Millisecond) // a generator reads the wall clock once per tick
					ctx, end := invocation(t.Context(), full)
					defer end()
					ctx, cancel := context.WithCancel(f.agent.Context(ctx))
					defer cancel()
					time.AfterFunc(c.cancel, cancel)
					time.AfterFunc(100*time.Millisecond, func() { clock.lag.Add(int64(c.further)) })
					began := time.Now()
					err = use(f, t, ctx)
					took := time.Since(began)
					if took < c.atLeast || took > c.atMost {
						t.Errorf("got %v after %v, want it after %v to %v", err, took, c.atLeast, c.atMost)
					}
					var behind, wanted *snowflake.ClockError
					if clocks := errors.As(c.want, &wanted); clocks && !errors.As(err, &behind) || !clocks && !errors.Is(err, c.want) {
						t.Errorf("got %v, want %T %v", err, c.want, c.want)
					}
					fixture.Wait(c.back + c.further)
					f.invoke(t, func(ctx context.Context) error { return use(f, t, ctx) })
					f.close(t, "held")
				})
			})
		}
	}
}

// A call that may not wait for the next tick returns ErrBusy, as a generator's Next does.
func TestWithoutWaiting(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		a, err := leaselambda.New(config(fixture.NewNetwork(1)), snowflake.WithMaxWait(0))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := invocation(t.Context(), 10*time.Second)
		defer end()
		if err := a.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(20 * time.Millisecond)
		made := 0
		for ; err == nil && made <= 1<<snowflake.Default().SequenceBits; made++ {
			_, err = a.Generator(ctx).Next()
		}
		if !errors.Is(err, snowflake.ErrBusy) {
			t.Errorf("after %d IDs of one tick: got %v, want ErrBusy", made, err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := a.Generator(ctx).Next(); err != nil {
			t.Errorf("in the next tick: got %v, want nil", err)
		}
	})
}
