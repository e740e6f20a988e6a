// Package discovery tells where services are: which processes offer a service, or
// an endpoint's key, and at what address. It rides on the leases: an entry is
// written once, names the session and the version of a lease, and counts only
// while that lease is live. There is no heartbeat of its own.
//
// # What is promised
//
// An instance that ended without a word is given no longer than its lease lasts,
// by the reader's clock, however long answers are cached; one that took itself
// back, no longer than [Config.MaxAge]. An entry never counts for another holder of
// the same number. After a suspension the same entries count again; after a loss,
// where the agent takes another number, they are written again. What a late or
// repeated write leaves behind never replaces anything newer. All of this is said
// of answers without an error: while the store is away, the last one is given.
//
// # What is not promised
//
// An address is a hint: its process may have ended since, or not answer. Two
// readers may see different lists at one moment. A lease that was given back, or
// freed by force, while its entries stood is noticed up to two MaxAge later. A
// reader whose clock is ahead by more than two thirds of a lease's length sees
// nobody.
//
// # How it is kept
//
//	<pool>#svc#<service>          node ID    a service's instances
//	<pool>#ep#<endpoint>#<key>    node ID    an endpoint's; without a key "_"
//	either of them                -1         what a reader found out of their leases
//	<pool>#registered             node ID    where the holder of a number is entered
//
// Every item carries version and revision, and every write is one conditional
// UpdateItem of the form "if what is stored is older". Nothing is deleted: what is
// gone keeps its key, version and revision, so that a late write cannot bring it
// back. The last partition is what [Reap] goes by. See docs/discovery.md.
package discovery
