// Package snowflake generates 64-bit IDs that grow with time and are never
// generated twice, regardless of clocks, pauses and partitions, provided that
// the node ID comes from a lease.
//
//	ids, err := snowflake.New(agent) // a *lease.Agent
//	id, err := ids.Next()
//
// An ID is an int64. With the default layout:
//
//	 63 62                                     22 21        12 11          0
//	┌──┬─────────────────────────────────────────┬────────────┬─────────────┐
//	│ 0│ milliseconds since 2025-01-01, 41 bits  │ node ID, 10│ sequence, 12│
//	└──┴─────────────────────────────────────────┴────────────┴─────────────┘
//	   until 2094-09-07                           1,024 nodes  4,096 IDs per ms
//
// When fewer node bits are in use (Span.Eras), the unused ones extend the
// sequence at its upper end:
//
//	│ 0│ milliseconds                            │burst│ node │ sequence    │
//
// There are other layouts: Wide16, JS53 (safe in JavaScript), Twitter, Discord,
// Sonyflake, and any that you define.
//
// # What is promised
//
// Each millisecond of each node ID belongs to one holder. A generator stamps only
// milliseconds of the span that its lease has confirmed, so two processes that
// both believe they hold node 7 cannot generate the same ID, whatever their
// clocks show. A call that begins at or after the lease's deadline fails: every
// call checks the monotonic clock, and the wall clock is checked once per tick
// and on each wait (on every call with WithStrictWall). The IDs of one node
// increase strictly, even when its node ID changes. No call makes a stamp that is
// ahead of Timeline.Now. Next allocates nothing, and an idle generator has no
// goroutine and no timer.
//
//	           Bind                    tick used up
//	fenced ───────────▶ ready ───────────────────────────▶ saturated
//	  ▲                  │ ▲      a ticket in the next tick    │
//	  │ Deadline, Until, │ └───────────────────────────────────┘
//	  └──────────────────┘     the clock gets there
//	     Seal, a clock that is behind
//
// # What is not promised
//
// Fixed node IDs are not checked for uniqueness. A machine that is restored
// from a snapshot is fenced only where Linux has a VMClock device
// (Timeline.Copied). IDs of different nodes are ordered by the millisecond at
// best, as far as their clocks agree. While callers ask for more IDs than a
// tick has, stamps may be up to WithCatchUp (16 ms) old. The limit of the
// default layout is 4,096 IDs per millisecond and node: callers beyond that
// wait. IDs reveal when and by which node they were generated, and can be
// guessed: they are not secret.
//
// # When not to use it
//
// If 128 bits are fine, use UUIDv7 or ULID: they need no node ID and no lease. If
// one database generates all IDs, use its sequence. If an ID must not reveal its
// time, use a random one.
//
// # Files
//
// term.go has the state word and composes the bits of an ID. generator.go has
// the fast path, which runs millions of times per second, and slow.go handles
// every case that the fast path cannot. anchor.go makes stamps follow the wall
// clock. timeline.go has the methods with which the lease agent starts and
// extends a span, and fence.go has those that end it.
package snowflake
