// Package cluster tells who is alive and who leads, on the same heartbeats that
// keep the leases. It is a foundation, not a framework.
//
// # What is promised
//
// A member's state is what the backend held at that member's own last heartbeat:
// the sessions that had a heartbeat within the time-out. When the network is
// whole and sessions come and go no more, all members see the same state after
// one time-out and two heartbeats (with a digest, after two time-outs). Each
// listener is told the newest state that it has not seen, as soon as it is ready.
//
// # What is not promised
//
// No linearizability: two members may see different states at one moment. No
// protection from a split brain: in a partition there may be two leaders, or
// none, since an election here is a function of what one member sees. No order of
// events: states between two deliveries are skipped, and two members may see two
// joins in different orders. Who needs one leader at a time takes a leader lease,
// a pool of one number ([lease.Config]), and compares its Version, the fencing
// token, at the resource; see the example LeaderLease. Even then two processes
// may believe that they lead; only the resource can refuse one of them.
//
// # A node's states
//
//	          first heartbeat            listener fails, panics; the lease is lost
//	(Start) ─────────────────▶ taking part ─────────────────────▶ down, for good
//	                            │  ▲                               (has_left mark)
//	        no heartbeat for    │  │ heartbeat, with a                  ▲
//	        longer than Timeout ▼  │ new session                        │
//	                           silent ────────────────────────────── Close
//
// A node has two names. NodeID is the application's: stable, it survives
// restarts. SessionID is a UUIDv7, new for each incarnation and after each
// silence that was longer than the time-out: others have dropped the old one by
// then, and may have acted on that.
//
// With a [lease.Agent] the heartbeat is the renewal: what the node says of itself
// stands in the lease's metadata, and no second write is made. There is no join
// and no leave: who stops heartbeating is dropped after the time-out, who gives
// its lease back or marks it is dropped at the next look.
//
// Times are compared by the backend's clock (memory, PostgreSQL), or, in the
// lease table, with the reader's: its error counts against the time-out.
package cluster
