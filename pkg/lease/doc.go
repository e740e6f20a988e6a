// Package lease assigns a stateless process a small unique number, a node ID, and
// keeps it for as long as the process lives, with nothing but a DynamoDB table.
//
// # What is promised
//
// Each millisecond of each node ID belongs to at most one holder, ever. A lease
// hands out a span of milliseconds, (not_before, reserved_until], and the spans
// of one node ID never overlap: each begins where the one before it ended, in
// one atomic write. IDs made of millisecond, node ID and sequence are therefore unique
// regardless of clocks, pauses, partitions and lost answers. No clock needs to be right.
//
// At most one process at a time believes that it holds a node ID, as long as
// the clocks of any two machines differ by no more than half of Guard +
// ClaimGuard (1.5 s by default). For effects elsewhere that must not rely on
// this, Version is a fencing token: it grows with each holder.
//
// # What is not promised
//
// Exclusivity between a check and an effect: a pause of any length may occur in between. Renewals on a schedule
// in a process that is frozen between its uses, such as an AWS Lambda function: [OnDemand] renews when it is
// used. Uniqueness after a machine was cloned while it ran, until the next renewal reveals it, or after the table
// was restored from a backup, before leasepool.Pool.Raise was run. Uniqueness between two pools.
//
// # The states of a node ID
//
//	          seed                 claim
//	(no item) ────▶ free ───────────────────────────▶ held ──┐
//	                 ▲  ▲                            │ │  ▲  │ renew
//	                 │  │ release (after the fence)  │ │  └──┘
//	                 │  └────────────────────────────┘ │ time
//	                 │ reserved_until passes           ▼
//	              cooling ◀────────────────────── expired ────▶ held by another,
//	                         reap, force release       claim    version + 1
//
// # The states of a holder
//
//	           claim confirmed        deadline, no answer
//	(acquire) ───────────────▶ held ─────────────────────▶ suspended
//	    ▲                      │ ▲ ◀───────────────────────┘ │ (OnExpiry: Stop)
//	    │ OnLost: Reacquire    │    renewal confirmed        │
//	    └──────────────── lost ◀─────────────────────────────┘
//	                           taken, freed, or cloned
//
// # When to stop relying on it
//
// A renewal that was sent at m0, on the monotonic clock, and confirmed at any
// later time, is good until the deadline
//
//	D = m0 + TTL - Guard
//
// Others may take the node ID when their wall clock passes expires_at + ClaimGuard.
// Two believers would need clocks whose errors add up to more than Guard +
// ClaimGuard. Every use checks D itself ([Agent.Lease]; each call of a generator),
// since a timer may fire late and a request may hang.
package lease
