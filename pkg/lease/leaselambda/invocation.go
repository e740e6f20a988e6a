package leaselambda

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// ErrNoInvocation is returned for a context that does not belong to an invocation in
// progress, because the context has no request ID or has ended.
var ErrNoInvocation = errors.New("leaselambda: outside of an invocation")

// Agent leases a node ID for the environment of a function. Its methods are safe for
// concurrent use. Wrap creates an Agent; use New in a program that passes the Agent to
// its handlers in its own way.
type Agent struct {
	node  *lease.OnDemand
	wrong error // error in the configuration; if set, node is nil
	opts  []snowflake.Option
	ids   atomic.Pointer[snowflake.Generator]
}

// New returns an agent, which sends no request before the first invocation. Config
// and the error are those of [lease.NewOnDemand]. The options are those of the
// generator.
func New(cfg lease.Config, opts ...snowflake.Option) (*Agent, error) {
	node, err := lease.NewOnDemand(cfg)
	if err != nil {
		return nil, err
	}
	return &Agent{node: node, opts: opts}, nil
}

// absent reports whether a is nil or zero: neither New nor Wrap created it.
func (a *Agent) absent() bool { return a == nil || a.node == nil && a.wrong == nil }

var errAbsent = fmt.Errorf("%w: this Agent is nil or zero: leaselambda.New returns one", lease.ErrClosed)

type agentKey struct{}

// Context returns a copy of an invocation's context that carries the agent, for
// [Generator] and [Lease]. Call it with the context that the runtime created: the
// deadline of that context, which AWS sets, shows how long the environment was frozen.
func (a *Agent) Context(ctx context.Context) context.Context {
	if ctx == nil { // calls with the new context fail, since that context belongs to no invocation
		ctx = context.Background()
	}
	// The time-out of a function does not change during the life of an environment, so the
	// time between the deadlines of two invocations equals the time between their
	// beginnings.
	if at, ok := ctx.Deadline(); ok && a != nil && a.node != nil && invocation(ctx) == nil {
		a.node.Witness(at)
	}
	return context.WithValue(ctx, agentKey{}, a)
}

// Refresh makes sure that IDs can be made in this invocation; see
// [lease.OnDemand.Refresh]. The error is ErrNoInvocation if ctx does not belong to an
// invocation in progress.
func (a *Agent) Refresh(ctx context.Context) error {
	if a.absent() {
		return errAbsent
	}
	if a.wrong != nil {
		return a.wrong
	}
	if err := invocation(ctx); err != nil {
		return err
	}
	return a.node.Refresh(ctx)
}

// Generator returns the generator for one invocation.
func (a *Agent) Generator(ctx context.Context) IDs { return IDs{ctx, a} }

// Lease makes sure that the lease is held, and returns it; see [lease.OnDemand.Lease].
func (a *Agent) Lease(ctx context.Context) (lease.Lease, error) {
	if err := a.Refresh(ctx); err != nil {
		return lease.Lease{}, err
	}
	return a.node.Lease()
}

// Close stops ID making and releases the node ID; see [lease.OnDemand.Close].
func (a *Agent) Close() error {
	if a.absent() {
		return errAbsent
	}
	if a.node == nil {
		return nil
	}
	return a.node.Close()
}

// generator refreshes the lease and returns the generator for a call with the context
// ctx.
func (a *Agent) generator(ctx context.Context) (*snowflake.Generator, error) {
	if err := a.Refresh(ctx); err != nil {
		return nil, err
	}
	if g := a.ids.Load(); g != nil {
		return g, nil
	}
	g, err := a.node.Generator(ctx, a.opts...)
	if err != nil {
		return nil, err
	}
	a.ids.CompareAndSwap(nil, g)
	return a.ids.Load(), nil
}

// invocation returns nil if ctx is the context of an invocation in progress. Nothing is
// claimed, renewed or stamped outside an invocation, since a snapshot is taken before the
// first invocation, and the environment is frozen between invocations.
func invocation(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil: pass on the one that the handler is called with", ErrNoInvocation)
	}
	if lc, ok := lambdacontext.FromContext(ctx); !ok || lc.AwsRequestID == "" {
		return fmt.Errorf("%w: the context has no request ID: pass on the one that the handler is called with, and make no IDs before the first invocation", ErrNoInvocation)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: it has ended (%w): make IDs before the handler returns. If it goes on: this machine's clock, which says %s, is ahead of the deadline that AWS has set",
			ErrNoInvocation, err, time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// of returns the agent that the context of an invocation carries.
func of(ctx context.Context) *Agent {
	if ctx != nil {
		if a, ok := ctx.Value(agentKey{}).(*Agent); ok {
			return a
		}
	}
	return &Agent{wrong: fmt.Errorf("%w: the context has no agent: pass the handler to lambda.Start through leaselambda.Wrap, and pass its context on", ErrNoInvocation)}
}

// IDs generates the IDs of one invocation. Generators of several invocations share
// one node ID and never generate equal IDs. IDs cannot be used once the handler has
// returned.
type IDs struct {
	ctx context.Context
	a   *Agent
}

// Generator returns the generator of an invocation whose handler was wrapped by [Wrap].
// Generator sends no request; the first call for an ID does.
func Generator(ctx context.Context) IDs { return of(ctx).Generator(ctx) }

// Lease calls [Agent.Lease] of the invocation's agent, which returns the node ID and its
// fencing token.
func Lease(ctx context.Context) (lease.Lease, error) { return of(ctx).Lease(ctx) }

// Next returns the next ID. If necessary, it first claims a node ID or renews the lease.
// It does so once more if the environment was frozen between that check and the ID. Next
// waits for the clock for at most WithMaxWait, and stops waiting a little before the
// invocation's deadline. Errors are those of [Agent.Refresh] and of
// [snowflake.Generator.NextContext].
func (g IDs) Next() (snowflake.ID, error) {
	id, err := g.next()
	if errors.Is(err, snowflake.ErrFenced) {
		return g.next()
	}
	return id, err
}

func (g IDs) next() (snowflake.ID, error) {
	ids, err := g.a.generator(g.ctx)
	if err != nil {
		return 0, err
	}
	if id, err := ids.TryNext(); !errors.Is(err, snowflake.ErrBusy) {
		return id, err
	}
	return g.wait(ids)
}

// wait returns the next ID once the generator has one. Generator.Next would not notice
// the end of the invocation, and NextContext would wait for longer than WithMaxWait. So
// wait checks repeatedly whether the wait has become too long.
func (g IDs) wait(ids *snowflake.Generator) (snowflake.ID, error) {
	ctx, cancel := inTime(g.ctx)
	defer cancel()
	for {
		var behind *snowflake.ClockError
		switch err := g.a.node.Timeline().Check(); {
		case errors.As(err, &behind) && behind.Behind <= 2*ids.Layout().Tick: // other callers use up the milliseconds; the clock was not set back
			return 0, snowflake.ErrBusy
		case err != nil:
			return 0, err
		}
		one, stop := context.WithTimeout(ctx, checkAgain)
		id, err := ids.NextContext(one)
		again := one.Err() != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err()))
		stop()
		if err == nil || !again {
			return id, err
		}
	}
}

// checkAgain is the interval at which a waiting call checks whether the clock was set
// back further.
const checkAgain = 100 * time.Millisecond

// inTime returns a context that ends a little before the invocation's deadline, since the
// handler needs time to act on an error.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, at.Add(-min(time.Until(at)/10, time.Second/2)))
}

// NextN fills dst with IDs, in order, as [snowflake.Generator.NextN] does. It returns the
// number of IDs, and an error if that number is less than len(dst).
func (g IDs) NextN(dst []snowflake.ID) (n int, err error) {
	if len(dst) == 0 {
		return 0, g.a.Refresh(g.ctx)
	}
	// If the clock was set back, the first ID fails at once, while Generator.NextN would
	// wait until the invocation ends.
	if dst[0], err = g.Next(); err != nil {
		return 0, err
	}
	ctx, cancel := inTime(g.ctx)
	defer cancel()
	n, err = g.a.ids.Load().NextN(ctx, dst[1:])
	return n + 1, err
}
