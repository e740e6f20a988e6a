// Package snowflake generates 64-bit IDs that grow with time. If the node ID comes
// from a lease, no ID is generated twice, regardless of clocks, pauses and
// partitions.
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
// In a narrow pool, fewer node bits are in use at first (Span.Eras). The unused bits
// extend the sequence at its upper end:
//
//	│ 0│ milliseconds                            │burst│ node │ sequence    │
//
// There are other layouts: Wide16, JS53 (safe in JavaScript), Twitter, Discord,
// Sonyflake, and any that you define.
//
// # What is promised
//
//   - Each millisecond of each node ID belongs to one holder. A generator stamps only
//     milliseconds of the span that its lease has confirmed. So two processes that
//     both believe they hold node 7 cannot generate the same ID, whatever their
//     clocks show.
//   - A call that begins at or after the deadline of the span fails. With a lease, this
//     is the lease's own deadline or, where more milliseconds are reserved
//     (lease.Config.Reserve, leases that grow), a later one. So a new ID does not show
//     that the lease is still held. Every call checks the monotonic clock. The wall
//     clock is checked once per tick and on each wait (with WithStrictWall, on every
//     call).
//   - The IDs of one generator increase strictly, even if its node ID changes.
//   - No call makes a stamp that is ahead of Timeline.Now.
//   - Next allocates nothing. An idle generator has no goroutine and no timer.
//
// # The states of a generator
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
//   - Fixed node IDs are not checked for uniqueness.
//   - A machine that is restored from a snapshot is fenced only if Linux has a VMClock
//     device (Timeline.Copied).
//   - IDs of different nodes are in the order of their milliseconds at best, and only
//     as far as the nodes' clocks agree.
//   - While callers request more IDs than a tick contains, stamps may be up to
//     WithCatchUp (16 ms) old.
//   - The default layout has at most 4,096 IDs per millisecond and node. Callers that
//     request more have to wait.
//   - IDs are not secret. They can be guessed, and reveal when and by which node they
//     were generated.
//
// # When not to use it
//
// If IDs may have 128 bits, use UUIDv7 or ULID, which need no node ID and no lease.
// If one database generates all IDs, use its sequence. If an ID must not reveal its
// time, use a random ID.
package snowflake
