// Package lease gives a stateless process a small unique integer, a node ID, for as long
// as the process lives. It needs only a DynamoDB table.
//
// # What is promised
//
// Each millisecond of each node ID belongs to at most one holder, ever. A lease
// hands out a span of milliseconds, (not_before, reserved_until], and the spans
// of one node ID never overlap: one atomic write begins each span where the previous
// one ends. IDs made of millisecond, node ID and sequence are therefore unique,
// whatever happens to clocks, processes, the network and answers. No clock needs to be
// right.
//
// At most one process at a time believes that it holds a node ID, as long as
// the clocks of any two machines differ by no more than half of Guard +
// ClaimGuard (1.5 s by default). Effects on other systems that must not depend on
// clocks can use Version as a fencing token: it grows with each holder.
//
// # What is not promised
//
// These are not promised:
//
//   - That the lease is still held when an effect follows a check: the process may be
//     paused for any time between the two.
//   - Renewals on a schedule in a process that is frozen between its uses, such as an AWS
//     Lambda function. [OnDemand] renews when it is used.
//   - Unique IDs after a running machine is cloned, until the next renewal reveals the
//     clone, and after the table is restored from a backup, until leasepool.Pool.Raise
//     has run.
//   - Unique IDs across two pools.
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
// # When to stop relying on a lease
//
// If a renewal was sent at m0 on the monotonic clock, and confirmed at any later time,
// the holder may rely on its lease until the deadline
//
//	D = m0 + TTL - Guard
//
// Others may claim the node ID once their wall clock has passed expires_at + ClaimGuard.
// Two processes could believe that they hold the node ID only if the errors of their
// clocks added up to more than Guard + ClaimGuard. Every use compares the time with D
// ([Agent.Lease]; each call of a generator), since a timer may fire late and a request
// may hang.
package lease
