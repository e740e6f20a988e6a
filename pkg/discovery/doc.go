// Package discovery finds services: the processes that offer a service, or an endpoint's
// key, and their addresses. It is based on the leases: an entry is written once, names
// the session and the version of a lease, and counts only while that lease is live. There
// is no separate heartbeat.
//
// # What is promised
//
// A crashed instance is returned at most until its lease expires by the reader's
// clock, however long answers are cached; a deregistered one at most [Config.MaxAge]
// longer. An entry is never attributed to another holder of the same node ID. After a
// suspension the same entries count again; after a loss, if the agent claims another node
// ID, they are written again. When an outage ends, an answer that was read before an
// instance had renewed its lease counts for 5 s at most, for half a second at first,
// regardless of MaxAge, and is not shared with other readers. A returned address is one
// that [Directory.Register] would accept. A late or repeated write never replaces
// anything newer. All of this holds for answers without an error: while the store is
// unavailable, the last answer is returned.
//
// # What is not promised
//
// An address is a hint: its process may have ended since, or not answer. Two
// readers may see different lists at the same time. A lease that was released, or
// freed by force, while its entries were there is noticed up to two MaxAge later. A
// reader whose clock is ahead by more than two thirds of a lease's length sees no
// instances.
//
// # How it is kept
//
//	<pool>#svc#<service>          node ID    a service's instances
//	<pool>#ep#<endpoint>#<key>    node ID    an endpoint's; without a key "_"
//	either of them                -1         a reader's findings about their leases
//	<pool>#registered             node ID    the list of the holder's entries
//	<pool>#registered#<n>         node ID    the same, for each 4,096 node IDs
//
// Every item carries version and revision, and every write is one conditional
// UpdateItem of the form "if the stored one is older". Nothing is deleted: a
// deregistered entry keeps its key, version and revision, so that a late write cannot
// restore it. [Sweep] reads the lists. See docs/discovery.md.
package discovery
