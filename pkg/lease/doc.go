// Package lease leases a node ID, a small unique integer, to a stateless process for as
// long as the process lives. It needs only a DynamoDB table.
//
// # What is promised
//
// Unique IDs: each millisecond of each node ID belongs to at most one holder, ever. A
// lease reserves a span of milliseconds, after not_before and up to reserved_until. The
// spans of one node ID never overlap, since one atomic write begins each span where the
// previous one ends. So IDs that consist of a millisecond, a node ID and a sequence
// number are unique, even if clocks are wrong, processes crash, the network fails or
// answers are lost. No clock needs to be right.
//
// Exclusive leases: at most one process at a time believes that it holds a node ID, as
// long as the clocks of any two machines differ by no more than half of Guard +
// ClaimGuard (1.5 s by default).
//
// Fencing tokens: Version grows with each holder. A resource that compares versions can
// refuse an earlier holder without relying on clocks.
//
// # What is not promised
//
//   - A check does not outlast a pause: the process may be paused for any time between the
//     check that it holds its lease and the effect that depends on it.
//   - A process that is frozen between its uses, such as an AWS Lambda function, cannot
//     renew its lease on a schedule. Use [OnDemand], which renews the lease when it is
//     used.
//   - After a running machine is cloned, IDs may repeat until the next renewal reveals the
//     clone.
//   - After the table is restored from a backup, IDs may repeat until leasepool.Pool.Raise
//     has run.
//   - IDs of two pools may be equal.
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
// If a renewal was sent at the time m0 on the monotonic clock, and was confirmed at any
// later time, the holder may rely on its lease until the deadline
//
//	D = m0 + TTL - Guard
//
// where TTL is the length that this renewal requested, which is Config.TTL until the lease
// grows.
//
// Every use of the lease compares the time with D: each call of [Agent.Lease] and each
// call of a generator. A timer would not suffice, since it may fire late.
//
// Other processes may claim the node ID once their wall clocks have passed expires_at +
// ClaimGuard. So two processes can believe at the same time that they hold the node ID
// only if the errors of their clocks add up to more than Guard + ClaimGuard.
package lease
