// Package cluster reports which members are alive and which one leads, based on the same
// heartbeats that keep the leases. It is a foundation, not a framework.
//
// # What is promised
//
// A member's state is the backend's content at that member's last heartbeat: the sessions
// that had a heartbeat within the time-out. When there are no partitions and sessions no
// longer come and go, all members see the same state after one time-out and two
// heartbeats (with a digest, after two time-outs). Each listener receives the newest
// unseen state as soon as it is ready.
//
// A node is recorded before it reads the others. [Start] returns after both, so every node
// that reads later sees this node.
//
// A session that others may have dropped never comes back: silence counts from when
// a heartbeat was sent, even while the process was stopped or the machine suspended,
// and an answer that comes too late is discarded. The node continues with a new
// session, which is the youngest.
//
// A node believes that it leads only after its session has been recorded for one
// time-out, and only while its last heartbeat and its last read of the others are no
// older than one time-out. So without partitions, with clocks within their limit and with
// [LowestSession], at most one node believes that it leads. For one time-out after the
// first start of a fleet, no node does.
//
// # What is not promised
//
// Linearizability is not promised: two members may see different states at the same time.
// Nothing protects from a split brain: in a partition there may be two leaders, or none,
// since an election here is a function of one member's state. Events have no global
// order: states between two deliveries are skipped, and two members may see two joins in
// different orders. If there must be at most one leader, use a leader lease, that is, a
// pool of one node ID ([lease.Config]), and compare its Version, the fencing token, at
// the resource; see the example LeaderLease. Even then two processes may believe that
// they lead; only the resource can refuse one of them.
//
// # A node's states
//
//	           first heartbeat            listener fails, panics; the lease is lost
//	(Start) ─────────────────▶ taking part ─────────────────────▶ down, permanently
//	                            │  ▲                      (its session is taken out)
//	        no heartbeat for    │  │ heartbeat, with a                  ▲
//	        longer than Timeout ▼  │ new session                        │
//	                           silent ────────────────────────────── Close
//
// A node has two names. Name is chosen by the application: it is stable and survives
// restarts. SessionID is a UUIDv7, new for each incarnation and after each silence that
// was longer than the time-out: others have dropped the old session by then, and may
// have acted on that.
//
// With a [lease.Agent] the heartbeat is the renewal: the lease's metadata describes
// the node, and there is no second write. Nodes need not join or leave: a node that stops
// heartbeating is dropped after the time-out, and a node that releases its lease or fails
// is dropped at the others' next heartbeat.
//
// Times are compared by the backend's clock (memory, PostgreSQL). In the lease table they
// are compared by the reader's clock, whose error counts against the time-out.
package cluster
