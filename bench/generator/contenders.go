package main

import (
	"context"
	"log/slog"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	gofrs "github.com/gofrs/uuid/v5"
	google "github.com/google/uuid"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	"github.com/sony/sonyflake"
)

const (
	ours   = "nodelease Next"
	theirs = "bwmarrin"
)

// The layouts. twelve has 12 bits of sequence, as Twitter's layout has, and these bits set
// the cap. The sequence of wide is never used up, so that the code is measured and not the
// format.
var (
	twelve = snowflake.Default()
	wide   = snowflake.Layout{Epoch: twelve.Epoch, Tick: time.Millisecond, TimeBits: 41, NodeBits: 0, SequenceBits: 22}
)

func none() {}

// shared returns a contender whose goroutines all make the same call.
func shared(name string, per int, start func() (func(), error)) contender {
	return contender{name, func() (func() func(), int, func(), error) {
		call, err := start()
		return func() func() { return call }, per, none, err
	}}
}

func mine(name string, l snowflake.Layout, per int, call func(*snowflake.Generator) func() error, opts ...snowflake.Option) contender {
	return contender{name, func() (func() func(), int, func(), error) {
		node, err := leasefixed.New(0, l)
		if err != nil {
			return nil, 0, nil, err
		}
		g, err := snowflake.New(node, opts...)
		worker := func() func() {
			f := call(g)
			return func() {
				if err := f(); err != nil {
					panic(err)
				}
			}
		}
		return worker, per, none, err
	}}
}

func next(g *snowflake.Generator) func() error {
	return func() error { _, err := g.Next(); return err }
}

func nextN(n int) func(g *snowflake.Generator) func() error {
	return func(g *snowflake.Generator) func() error {
		ctx, buf := context.Background(), make([]snowflake.ID, n)
		return func() error { _, err := g.NextN(ctx, buf); return err }
	}
}

// ungated returns all contenders, with layouts whose sequence is never used up.
func ungated() []contender {
	return append([]contender{
		mine(ours, wide, 1, next),
		shared(theirs, 1, startBwmarrin(0, 22)),
		mine("nodelease NextContext", wide, 1, func(g *snowflake.Generator) func() error {
			ctx, cancel := context.WithCancel(context.Background())
			_ = cancel // the context could be cancelled, but is not
			return func() error { _, err := g.NextContext(ctx); return err }
		}),
		mine("nodelease TryNext", wide, 1, func(g *snowflake.Generator) func() error {
			return func() error { _, err := g.TryNext(); return err }
		}),
		mine("nodelease Next, strict wall", wide, 1, next, snowflake.WithStrictWall()),
		mine("nodelease Block.Next", wide, 1, func(g *snowflake.Generator) func() error {
			b := g.Block()
			return func() error { _, err := b.Next(); return err }
		}),
		mine("nodelease NextN(16)", wide, 16, nextN(16)),
		mine("nodelease NextN(1000)", wide, 1000, nextN(1000)),
		shared("rs/xid", 1, func() (func(), error) { return func() { _ = xid.New() }, nil }),
		shared("segmentio/ksuid", 1, func() (func(), error) { return func() { _ = ksuid.New() }, nil }),
		shared("oklog/ulid", 1, func() (func(), error) { return func() { _ = ulid.Make() }, nil }),
		shared("google/uuid v7", 1, func() (func(), error) { return func() { _, _ = google.NewV7() }, nil }),
		shared("gofrs/uuid v7", 1, func() (func(), error) { return func() { _, _ = gofrs.NewV7() }, nil }),
	}, floors()...)
}

// atTheCap returns the contenders that use 12 bits of sequence per millisecond, and
// sonyflake, whose cap is 256 IDs in 10 ms. Our generator has a lease here.
func atTheCap() []contender {
	return []contender{
		{ours, startLeased},
		shared(theirs, 1, startBwmarrin(10, 12)),
		shared("sonyflake", 1, func() (func(), error) {
			s, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
			return func() { _, _ = s.NextID() }, err
		}),
	}
}

// startLeased makes a generator with an agent that renews its lease in an in-memory
// store.
func startLeased() (func() func(), int, func(), error) {
	agent, err := lease.Start(context.Background(), lease.Config{
		Pool: "bench", Store: leasetest.NewMemory("bench", 1024), TTL: 5 * time.Second, RenewEvery: time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, 0, none, err
	}
	g, err := snowflake.New(agent)
	worker := func() func() {
		return func() {
			if _, err := g.Next(); err != nil {
				panic(err)
			}
		}
	}
	return worker, 1, func() { _ = agent.Close() }, err
}

// startBwmarrin returns a start function for bwmarrin/snowflake. That function sets the
// package's global variables, which NewNode copies.
func startBwmarrin(nodeBits, stepBits uint8) func() (func(), error) {
	return func() (func(), error) {
		bwmarrin.NodeBits, bwmarrin.StepBits = nodeBits, stepBits
		n, err := bwmarrin.NewNode(0)
		return func() { _ = n.Generate() }, err
	}
}
