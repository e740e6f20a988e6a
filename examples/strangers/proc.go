//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

var quiet = slog.New(slog.DiscardHandler)

// want is nil if a condition holds, and otherwise what happened instead.
func want(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// A cable is a client whose connection can be cut. It counts the requests that were tried.
type cable struct {
	client lease.Client
	cut    atomic.Bool
	tries  atomic.Int64
}

func through[I, O any](ctx context.Context, c *cable, in I, opts []func(*dynamodb.Options), call func(context.Context, I, ...func(*dynamodb.Options)) (O, error)) (O, error) {
	c.tries.Add(1)
	if c.cut.Load() {
		var none O
		return none, errors.New("the cable is cut")
	}
	return call(ctx, in, opts...)
}

func (c *cable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return through(ctx, c, in, o, c.client.DescribeTable)
}

func (c *cable) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return through(ctx, c, in, o, c.client.GetItem)
}

func (c *cable) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return through(ctx, c, in, o, c.client.Query)
}

func (c *cable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return through(ctx, c, in, o, c.client.UpdateItem)
}

// A proc is an agent with a connection of its own, as another process would have.
type proc struct {
	*lease.Agent
	cable *cable

	mu     sync.Mutex
	events []lease.Event
	more   chan struct{}
}

func (p *proc) on(e lease.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.more)
	p.more = make(chan struct{})
}

// seen returns how many events there have been.
func (p *proc) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events)
}

// wait waits for an event of the given kind. It ignores as many of the first events as
// after states.
func (p *proc) wait(ctx context.Context, after int, kind lease.EventKind) (lease.Event, error) {
	for {
		p.mu.Lock()
		more := p.more
		for _, e := range p.events[min(after, len(p.events)):] {
			if e.Kind == kind {
				p.mu.Unlock()
				return e, nil
			}
		}
		p.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return lease.Event{}, fmt.Errorf("no event %q: %w", kind, ctx.Err())
		}
	}
}

// crash ends a process without a release: none of its requests arrives any more.
func (p *proc) crash() {
	p.cable.cut.Store(true)
	go func() { _ = p.Close() }()
}

// short returns the configuration of a lease that is short enough for tests.
func short(pool string) lease.Config {
	return lease.Config{Pool: pool, TTL: 3 * time.Second, Guard: 500 * time.Millisecond, ClaimGuard: 500 * time.Millisecond}
}

func (w *world) start(ctx context.Context, cfg lease.Config) (*proc, error) {
	p := &proc{cable: &cable{client: w.client}, more: make(chan struct{})}
	cfg.OnEvent, cfg.Logger = p.on, quiet
	if cfg.Store == nil {
		cfg.Store = lease.NewDynamoDB(p.cable, w.table)
	}
	var err error
	p.Agent, err = lease.Start(ctx, cfg)
	return p, err
}

// seed makes a pool and returns its name and its verbs.
func (w *world) seed(ctx context.Context, name string, s leasepool.Spec) (string, *leasepool.Pool, error) {
	name = w.pool(name)
	pool := leasepool.Open(lease.NewDynamoDB(w.client, w.table), name)
	_, err := pool.Seed(ctx, s)
	return name, pool, err
}

// leases returns all node IDs of a pool; those that are corrupt are left out.
func leases(ctx context.Context, pool *leasepool.Pool) (list []lease.Lease, corrupt int, err error) {
	for l, err := range pool.Leases(ctx) {
		var c *lease.CorruptError
		switch {
		case errors.As(err, &c):
			corrupt++
		case err != nil:
			return nil, 0, err
		default:
			list = append(list, lease.Lease(l))
		}
	}
	return list, corrupt, nil
}

// take makes n IDs.
func take(ctx context.Context, g *snowflake.Generator, n int) ([]snowflake.ID, error) {
	ids := make([]snowflake.ID, n)
	n, err := g.NextN(ctx, ids)
	return ids[:n], err
}

// within returns f's result, and its duration.
func within(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}
