// Package lease leases a node ID, a small unique integer, to a stateless process for as
// long as the process lives. It needs only a DynamoDB table.
//
// # What is promised
//
// Unique IDs: each millisecond of each node ID belongs to at most one holder, ever. A
// lease reserves a span of milliseconds, (not_before, reserved_until]. The spans of one
// node ID never overlap, since one atomic write begins each span where the previous one
// ends. So IDs that consist of a millisecond, a node ID and a sequence number are unique,
// whatever happens to clocks, processes, the network and answers. No clock needs to be
// right.
//
// Exclusive leases: at most one process at a time believes that it holds a node ID, as
// long as the clocks of any two machines differ by no more than half of Guard +
// ClaimGuard (1.5 s by default).
//
// Fencing tokens: Version grows with each holder. A resource that compares it can refuse
// an earlier holder without relying on clocks.
//
// # What is not promised
//
//   - A check does not outlast a pause: the process may be paused for any time between the
//     check that it holds its lease and the effect that depends on it.
//   - A process that is frozen between its uses, such as an AWS Lambda function, does not
//     renew on a schedule. [OnDemand] renews when it is used.
//   - After a running machine is cloned, IDs may repeat until the next renewal reveals the
//     clone.
//   - After the table is restored from a backup, IDs may repeat until leasepool.Pool.Raise
//     has run.
//   - Two pools may generate the same IDs.
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
// Every use of the lease compares the time with D: each call of [Agent.Lease] and each
// call of a generator. A timer would not suffice, since it may fire late.
//
// Others may claim the node ID once their wall clock has passed expires_at + ClaimGuard.
// So two processes can believe that they hold the node ID only if the errors of their
// clocks add up to more than Guard + ClaimGuard.
package lease
