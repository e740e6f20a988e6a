package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// TaskCommand is the hidden command of this program that calls RunTask.
const TaskCommand = "demo-task"

const (
	// A task makes batchSize IDs at once, every batchEvery on average. That is 100,000 per
	// second, far fewer than possible, since two cores also have to compare all IDs.
	batchSize  = 500
	batchEvery = 5 * time.Millisecond
	// maxWait is how long a task waits for its clock before it reports that the clock is
	// behind.
	maxWait = 100 * time.Millisecond
)

// RunTask runs one task of the fleet: it holds a node ID and makes IDs until ctx ends (on
// SIGTERM) or stdin ends. The error is a lease.ErrPoolExhausted if there was no free node
// ID, and a lease.ErrLost if the task lost its node ID and its spec says that it then ends.
func RunTask(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	orders := json.NewDecoder(stdin)
	var spec taskSpec
	if err := orders.Decode(&spec); err != nil {
		return fmt.Errorf("no task on stdin: this command is only started by %q: %w", "nodelease demo", err)
	}
	clock := newMovedClock(spec.ClockOff)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		var o order
		for orders.Decode(&o) == nil {
			clock.step(o.ClockStep)
		}
		cancel() // the director is gone
	}()
	store, err := lease.Open(ctx, spec.Table, spec.Endpoint)
	if err != nil {
		return err
	}
	out := &frameWriter{out: stdout}
	return lease.Run(ctx, lease.Config{
		Pool: spec.Pool, Store: taskStore(store), Task: spec.Name, Clock: clock,
		TTL: spec.TTL, MaxTTL: spec.MaxTTL, Guard: spec.Guard, ClaimGuard: spec.ClaimGuard, Wait: spec.Wait, OnLost: spec.onLost(),
		Logger:  slog.New(slog.DiscardHandler),
		OnEvent: func(e lease.Event) { _ = out.event(newTaskEvent(e)) }, // ignore the error: without its parent the task ends
	}, func(ctx context.Context, agent *lease.Agent) error {
		ids, err := snowflake.New(agent, snowflake.WithMaxWait(maxWait))
		if err != nil {
			return err
		}
		part, leave := context.WithCancel(ctx)
		defer leave()
		if spec.Member {
			go takePart(part, agent, spec)
		}
		return makeIDs(ctx, ids, out)
	})
}

// takePart makes the task a member of the fleet's cluster for as long as it has a lease.
func takePart(ctx context.Context, agent *lease.Agent, spec taskSpec) {
	table := dynamocoordinator.New(client(spec.Endpoint), spec.Table)
	for ctx.Err() == nil {
		renewed := agent.Renewed()
		node, err := cluster.Start(ctx, cluster.Config{Name: spec.Name, Agent: agent, Coordinator: table, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			select {
			case <-ctx.Done():
			case <-node.Done():
			}
			_ = node.Close()
			return
		}
		select { // suspended: try again when it is not
		case <-ctx.Done():
		case <-renewed:
		}
	}
}

// makeIDs makes IDs at a steady pace. While the task is fenced (suspended, between two node
// IDs, or with a clock that jumped), makeIDs makes none, and tries again.
//
// The pauses have random lengths. With fixed pauses, two tasks might never stamp the same
// millisecond, so if they ever held the same node ID, no check would notice.
func makeIDs(ctx context.Context, ids *snowflake.Generator, out *frameWriter) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	batch := make([]snowflake.ID, batchSize)
	behind := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
			pause.Reset(rand.N(2 * batchEvery))
		}
		n, err := fill(ctx, ids, batch)
		if n > 0 {
			if err := out.ids(batch[:n]); err != nil {
				return err
			}
		}
		var clock *snowflake.ClockError
		if now := errors.As(err, &clock); now != behind {
			behind = now
			_ = out.event(taskEvent{Kind: map[bool]lease.EventKind{true: eventBehind, false: eventCaughtUp}[behind]})
		}
		switch {
		case err == nil, behind, errors.Is(err, snowflake.ErrFenced), errors.Is(err, snowflake.ErrBusy):
		case errors.Is(err, snowflake.ErrClosed), ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}

// fill makes a batch of IDs. The first ID shows whether any can be made now, because Next
// waits only for a short time, but NextN for as long as ctx lasts.
func fill(ctx context.Context, ids *snowflake.Generator, batch []snowflake.ID) (n int, err error) {
	if batch[0], err = ids.Next(); err != nil {
		return 0, err
	}
	n, err = ids.NextN(ctx, batch[1:])
	return n + 1, err
}

func (s taskSpec) onLost() lease.LostPolicy {
	if s.Reacquire {
		return lease.Reacquire
	}
	return lease.StopOnLoss
}

func newTaskEvent(e lease.Event) taskEvent {
	t := taskEvent{Kind: e.Kind, Node: e.Lease.NodeID, Version: e.Lease.Version, IDsLeft: e.IDsLeft}
	if e.Err != nil {
		t.Error = e.Err.Error()
	}
	return t
}
