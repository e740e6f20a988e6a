// Package discovery finds services. A service is a set of processes, its instances, and
// their addresses. An instance offers a service, or a key of an endpoint.
//
// The package builds on leases. An instance writes its entry once. The entry names the
// session and the version of the instance's lease, and is valid only while this lease is
// live. So there is no separate heartbeat.
//
// # What is promised
//
//   - A crashed instance is returned only until its lease expires by the reader's clock,
//     however long answers are cached.
//   - A deregistered instance is returned for at most [Config.MaxAge] after its entry was
//     withdrawn.
//   - An entry is never attributed to another holder of the same node ID.
//   - When an agent resumes its lease after a suspension, the same entries are valid
//     again. When an agent claims another node ID after a loss, the entries are written
//     again.
//   - When an outage ends, a reader may read a lease before the instance has renewed it. The
//     reader reuses such an answer for only half a second at first, and later for at most
//     5 s, regardless of MaxAge. It does not share the answer with other readers.
//   - A returned address is one that [Directory.Register] would accept.
//   - A late or repeated write never replaces anything newer.
//
// These promises hold for answers without an error. While the store is unavailable, an
// error is returned together with the last answer.
//
// # What is not promised
//
//   - An address is only a hint: its process may have ended since, or may not answer.
//   - Two readers may see different lists at the same time.
//   - If a lease is released, or freed by force, while its entries still exist, readers may
//     take up to two MaxAge to notice.
//   - A reader whose clock is ahead by more than two thirds of a lease's length sees no
//     instances.
//
// # How entries are kept
//
// Items have these partition keys and sort keys:
//
//	<pool>#svc#<service>          node ID    an instance of a service
//	<pool>#ep#<endpoint>#<key>    node ID    an instance of an endpoint; "_" is no key
//	either of these two           -1         a reader's findings about their leases
//	<pool>#registered             node ID    the list of the holder's entries
//	<pool>#registered#<n>         node ID    the same, for node IDs from 4,096 × n
//
// Every item has a version and a revision. Every write is one UpdateItem on the condition
// that the stored item is older. Nothing is deleted: a deregistered entry keeps its key,
// version and revision, so that a late write cannot restore it. [Sweep] clears the entries
// whose lease is gone, which it finds in the lists. See docs/discovery.md.
package discovery
