// Package cluster reports which members are alive and which one leads. In the lease table,
// the renewals of the leases are its heartbeats. The backends are dynamocoordinator and
// pgcoordinator. To add one, implement [Coordinator], and test it with
// clustertest.Conformance.
//
// # What is promised
//
// States: the state that a member sees is the set of sessions that had a heartbeat within
// the time-out, as of this member's last heartbeat. If there are no partitions, and no
// sessions begin or end, all members see the same state after one time-out and two
// heartbeats (with a digest, after two time-outs). Each listener receives the newest
// unseen state as soon as the listener is ready.
//
// Joins: a node is recorded before it reads the others. [Start] returns after both, so
// every node that reads later sees this node.
//
// Sessions: a session that others may have dropped never comes back. The node measures its
// silence from the moment it sent its last heartbeat, including the time while the process
// was stopped or the machine suspended. It discards an answer that comes too late, and
// continues with a new session, which is then the youngest.
//
// Leaders: a node believes that it leads only after its session has been recorded for one
// time-out, and only while its last heartbeat and its last read of the others are no older
// than one time-out and its agent, if it has one, holds the lease. So at most one node
// believes that it leads if there are no partitions, clocks are within their limit, the
// elector is [LowestSession], names are unique, and no node ID is freed by force. For one
// time-out after the first start of a fleet, no node believes that it leads. If two
// processes without leases have the same name, neither leads from its next heartbeat on.
//
// # What is not promised
//
//   - Linearizability: two members may see different states at the same time.
//   - One leader in a partition: an election is a function of one member's state, so there
//     may be two leaders, or none.
//   - An order of events: states between two deliveries are skipped, and two members may see
//     two joins in different orders.
//
// If there must be at most one leader, use a leader lease, which is a pool of one node ID
// ([lease.Config]). Even then, after a pause, two processes may believe that they lead. So
// compare Version, the fencing token, at the resource: only the resource can refuse the
// outdated leader. See the example LeaderLease.
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
// A node has two names. The application chooses Name, which stays the same across
// restarts. SessionID is a UUIDv7. A node gets a new one at each start, and after each
// silence that was longer than the time-out, since others have dropped the old session by
// then and may have acted on its end.
//
// With a [lease.Agent], the renewal is the heartbeat: the lease's metadata describes the
// node, and there is no second write. A node need not leave. If it stops sending heartbeats,
// the others drop it after the time-out. If it releases its lease or fails, they drop it at
// their next heartbeat.
//
// In memory and in PostgreSQL, times are compared by the backend's clock. In the lease
// table, they are compared by the reader's clock, and the error of this clock counts
// against the time-out.
package cluster
