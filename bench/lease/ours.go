package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

const oursName = "nodelease"

func ours(endpoint string) contender {
	return contender{oursName, func(ctx context.Context, m *meter, n int, t terms) (nodeIDs, error) {
		client := newClient(endpoint, m)
		aside := newClient(endpoint, newMeter()) // the requests of seeding are not counted
		table, err := createTable(ctx, aside, "pool_group", "node_id")
		if err != nil {
			return nil, err
		}
		seeded := leasepool.Open(lease.NewDynamoDB(aside, table), "bench")
		if _, err := seeded.Seed(ctx, leasepool.Spec{Size: n}); err != nil {
			return nil, err
		}
		if _, err := seeded.Tend(ctx); err != nil { // as the reaper function does
			return nil, err
		}
		return pool{protocol.NewDynamoDB(client, table), t}, nil
	}}
}

type pool struct {
	store *protocol.DynamoDB
	terms terms
}

// phased is a store that reports the purpose of each write to the meter, and fails once its
// process is dead.
type phased struct {
	*protocol.DynamoDB // embedded for all of its methods: eventually consistent pages, hint cards and verdicts
	dead               atomic.Bool
	released           atomic.Bool
}

func (s *phased) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if s.dead.Load() {
		return protocol.Result{}, fmt.Errorf("the process is dead")
	}
	switch w.(type) {
	case protocol.Renew:
		ctx = in(ctx, renewing)
	case protocol.Release:
		s.released.Store(true)
		ctx = in(ctx, releasing)
	}
	return s.DynamoDB.Write(ctx, w)
}

// Note reads the note of waiting claimants, which an agent also does as a part of its release.
func (s *phased) Note(ctx context.Context, pool string) (protocol.Note, error) {
	if s.released.Load() {
		ctx = in(ctx, releasing)
	}
	return s.DynamoDB.Note(ctx, pool)
}

// claim starts an agent as an application does, with all checks of a start.
func (p pool) claim(ctx context.Context) (held, error) {
	h := &agent{store: &phased{DynamoDB: p.store}, renewed: make(chan time.Duration, 1000)}
	a, err := lease.Start(ctx, lease.Config{
		Pool: "bench", Store: h.store, TTL: p.terms.lease, RenewEvery: p.terms.every, Wait: time.Minute, Task: "bench",
		Logger: slog.New(slog.DiscardHandler),
		OnEvent: func(e lease.Event) {
			if e.Kind == lease.EventRenewed {
				h.renewed <- e.Took
			}
		},
	})
	h.Agent = a
	return h, err
}

func (p pool) close() {}

type agent struct {
	*lease.Agent
	store   *phased
	renewed chan time.Duration
}

func (h *agent) nodeID() int { return h.NodeID() }

func (h *agent) renewals(ctx context.Context, n int) (took []time.Duration, err error) {
	for len(took) < n {
		select {
		case t := <-h.renewed:
			took = append(took, t)
		case <-h.Done():
			return nil, h.Err()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return took, nil
}

func (h *agent) crash() { h.store.dead.Store(true) }

func (h *agent) release(context.Context) error { return h.Close() }
