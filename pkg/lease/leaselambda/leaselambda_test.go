package leaselambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaselambda"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// frozen is the clock of a machine whose clocks do not include pauses.
type frozen struct {
	lease.Clock
	lag atomic.Int64
}

func (f *frozen) Wall() time.Time          { return f.Clock.Wall().Add(-time.Duration(f.lag.Load())) }
func (f *frozen) Monotonic() time.Duration { return f.Clock.Monotonic() - time.Duration(f.lag.Load()) }

// invoke calls a handler as the runtime does, with a deadline of 3 s.
func invoke(t *testing.T, h lambda.Handler, event string) (string, error) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), 3*time.Second)
	defer end()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "b5a1e0c4"})
	out, err := h.Invoke(ctx, []byte(event))
	return string(out), err
}

// config returns a Config for a pool on a network. Nothing closes the agents that use it,
// since environments end without notice.
func config(s *fixture.Network) lease.Config { return fixture.Config(s) }

// Each invocation makes IDs, and only the first invocation of an environment claims a
// node ID.
func TestWrap(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		type event struct{ Count int }
		h := leaselambda.Wrap(func(ctx context.Context, e event) ([]snowflake.ID, error) {
			first, err := leaselambda.Generator(ctx).Next()
			if err != nil {
				return nil, err
			}
			ids := make([]snowflake.ID, e.Count)
			if _, err := leaselambda.Generator(ctx).NextN(ids); err != nil {
				return nil, err
			}
			if l, err := leaselambda.Lease(ctx); err != nil || l.NodeID != first.Node() {
				t.Errorf("Lease: got %+v, %v, want node %d", l, err, first.Node())
			}
			return append([]snowflake.ID{first}, ids...), nil
		}, config(s))
		fixture.Wait(time.Hour) // nothing is sent before the first invocation
		if got := s.Writes(); got != 0 {
			t.Fatalf("writes before the first invocation: got %d, want 0", got)
		}
		seen := map[snowflake.ID]bool{}
		for range 100 {
			out, err := invoke(t, h, `{"Count": 9}`)
			var ids []snowflake.ID
			if err == nil {
				err = json.Unmarshal([]byte(out), &ids)
			}
			if err != nil || len(ids) != 10 {
				t.Fatalf("got %s, %v, want 10 IDs", out, err)
			}
			for _, id := range ids {
				if seen[id] {
					t.Errorf("%v was made twice", id)
				}
				seen[id] = true
			}
			fixture.Wait(time.Second)
		}
		if got := len(fixture.WritesOf[protocol.Claim](s)); got != 1 || len(fixture.WritesOf[protocol.Renew](s)) != 0 {
			t.Errorf("100 invocations: got %d claims, want 1 and no renewal", got)
		}
	})
}

// Handlers of all kinds get the agent. If a handler takes no context and so cannot get
// the agent, the invocation returns an error.
func TestWrapsEachHandler(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		made := func(ctx context.Context) error {
			_, err := leaselambda.Generator(ctx).Next()
			return err
		}
		for name, handler := range map[string]any{
			"a context alone": made,
			"a lambda.Handler": lambda.NewHandler(func(ctx context.Context, in map[string]int) (map[string]int, error) {
				return in, made(ctx)
			}),
			"a context and an event": func(ctx context.Context, in map[string]int) (map[string]int, error) { return in, made(ctx) },
		} {
			out, err := invoke(t, leaselambda.Wrap(handler, config(s)), `{"a":1}`)
			if err != nil || name != "a context alone" && out != `{"a":1}` {
				t.Errorf("%s: got %s, %v", name, out, err)
			}
		}
		for _, handler := range []any{nil, 7, func() error { return nil }, func(map[string]int) error { return nil }} {
			if _, err := invoke(t, leaselambda.Wrap(handler, config(s)), `{}`); err == nil {
				t.Errorf("a handler of type %T, without a context: got nil, want an error", handler)
			}
		}
	})
}

// Nothing is claimed, renewed or stamped outside of an invocation.
func TestOutsideOfAnInvocation(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		a, err := leaselambda.New(config(s))
		if err != nil {
			t.Fatal(err)
		}
		refused := func(when string, ctx context.Context) {
			t.Helper()
			before := s.Writes()
			if id, err := leaselambda.Generator(ctx).Next(); !errors.Is(err, leaselambda.ErrNoInvocation) {
				t.Errorf("%s: got %v, %v, want ErrNoInvocation", when, id, err)
			}
			if err := a.Refresh(ctx); !errors.Is(err, leaselambda.ErrNoInvocation) {
				t.Errorf("%s: Refresh: got %v, want ErrNoInvocation", when, err)
			}
			if got := s.Writes(); got != before {
				t.Errorf("%s: %d writes, want 0", when, got-before)
			}
		}
		refused("without an agent", t.Context())
		refused("before the first invocation", a.Context(t.Context()))
		refused("with an empty request ID", a.Context(lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{})))
		var kept context.Context
		h := leaselambda.Wrap(func(ctx context.Context) error {
			kept = a.Context(ctx)
			_, err := leaselambda.Generator(kept).Next()
			return err
		}, config(s))
		if _, err := invoke(t, h, "{}"); err != nil {
			t.Fatal(err)
		}
		refused("after the invocation", kept)
		fixture.Wait(time.Hour)
		refused("an hour later", kept)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// If no clock of the machine shows a pause, the next invocation's deadline does.
func TestDeadlineIsEvidence(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		clock := &frozen{Clock: snowflake.SystemClock()}
		cfg := config(s)
		cfg.Clock = clock
		h := leaselambda.Wrap(func(ctx context.Context) error {
			_, err := leaselambda.Lease(ctx)
			return err
		}, cfg)
		for range 3 {
			if _, err := invoke(t, h, "{}"); err != nil {
				t.Fatal(err)
			}
			const pause = 4 * time.Minute
			clock.lag.Add(int64(pause))
			fixture.Wait(pause)
		}
		if claims, renewals := len(fixture.WritesOf[protocol.Claim](s)), len(fixture.WritesOf[protocol.Renew](s)); claims != 1 || renewals != 2 {
			t.Errorf("got %d claims and %d renewals, want 1 and 2", claims, renewals)
		}
	})
}

// With an invalid configuration, each request for an ID fails, but the function starts.
func TestWrongConfiguration(t *testing.T) {
	t.Setenv("NODELEASE_TABLE", "")
	t.Setenv("NODELEASE_POOL", "")
	h := leaselambda.Wrap(func(ctx context.Context, make bool) error {
		if !make {
			return nil
		}
		_, err := leaselambda.Generator(ctx).Next()
		return err
	}, lease.Config{})
	if _, err := invoke(t, h, "false"); err != nil {
		t.Errorf("an invocation that makes no ID: got %v, want nil", err)
	}
	for range 2 {
		if _, err := invoke(t, h, "true"); err == nil || !contains(err, "NODELEASE_POOL") || !contains(err, "AttachFunction") {
			t.Errorf("got %v, want that NODELEASE_POOL is missing, and how to set it", err)
		}
	}
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

// raw is a handler whose responses are not JSON.
type raw struct{ out []byte }

func (r raw) Invoke(ctx context.Context, _ []byte) ([]byte, error) {
	_, err := leaselambda.Generator(ctx).Next()
	return r.out, err
}

// The answers of a handler are passed on unchanged.
func TestWrapPassesResponsesThrough(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		for _, want := range []string{"", "no JSON", `{"a": "<b>"}`} {
			out, err := invoke(t, leaselambda.Wrap(raw{[]byte(want)}, config(fixture.NewNetwork(1))), "{}")
			if err != nil || out != want {
				t.Errorf("got %q, %v, want %q", out, err, want)
			}
		}
	})
}

// With a clock that was set back, requests for IDs fail before the invocation ends.
func TestClockSetBackEndsInTime(t *testing.T) {
	one := func(g leaselambda.IDs) error { _, err := g.Next(); return err }
	many := func(g leaselambda.IDs) error { _, err := g.NextN(make([]snowflake.ID, 100)); return err }
	for name, back := range map[string]time.Duration{"by an hour": time.Hour, "by less than the generator waits": 1800 * time.Millisecond} {
		for call, use := range map[string]func(leaselambda.IDs) error{"Next": one, "NextN": many} {
			t.Run(call+" "+name, func(t *testing.T) {
				fixture.Virtual(t, func(t *testing.T) {
					clock := &frozen{Clock: snowflake.SystemClock()}
					cfg := config(fixture.NewNetwork(1))
					cfg.Clock = steady{clock}
					a, err := leaselambda.New(cfg)
					if err != nil {
						t.Fatal(err)
					}
					invoke := func(use func(leaselambda.IDs) error) (took time.Duration, err error) {
						ctx, end := context.WithTimeout(t.Context(), time.Second)
						defer end()
						ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "b5a1e0c4"})
						began := time.Now()
						err = use(a.Generator(ctx))
						return time.Since(began), err
					}
					if _, err := invoke(one); err != nil {
						t.Fatal(err)
					}
					clock.lag.Add(int64(back))
					fixture.Wait(20 * time.Millisecond) // a generator reads the wall clock once per tick
					if took, err := invoke(use); err == nil || took > 950*time.Millisecond {
						t.Errorf("in an invocation of 1 s: got %v after %v, want an error before", err, took)
					}
					fixture.Wait(back)
					if _, err := invoke(use); err != nil {
						t.Errorf("when the clock has caught up: got %v, want nil", err)
					}
				})
			})
		}
	}
}

// steady is a clock whose monotonic clock does not lag: only its wall clock is set back.
type steady struct{ *frozen }

func (s steady) Monotonic() time.Duration { return s.Clock.Monotonic() }
