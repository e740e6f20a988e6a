// Package history judges what a lease table and its holders did. It knows the
// promises and nothing of the code that is to keep them: it is told, in order,
// what the table held after each write that was done, what each process
// believes, and every ID that was made, and says which promise is broken, if one
// is:
//
//   - S1: each millisecond of each node ID has at most one holder, ever, and no
//     ID is made twice. This must hold whatever clocks do.
//   - Versions grow by one, with each claim, and by nothing else.
//   - What is reserved never falls below what any holder may still stamp.
//   - S2: one process at a time believes that it holds a node ID. Judged only
//     where the clocks were inside the bound that the guards tolerate.
//   - A process gives up for good only what is not its any more.
//   - A process and a copy of it repeat each other's IDs only in what was reserved when
//     the copy was made, and nobody else's ever; behind that, one of the two goes on.
//   - An item that somebody broke by hand is not used again.
//   - A release reserves no more than was reserved; a node ID that comes to be begins at
//     the pool's floor, or behind it.
//
// A history can be written down and judged again, with the same verdict: see
// [Recorder.Save] and [Replay].
package history

import "time"

// Kind says what an Event tells.
type Kind string

// The kinds of events.
const (
	// World begins a history: what the run was, and whether S2 is judged.
	World Kind = "world"
	// Item is a number's item after a write that was done.
	Item Kind = "item"
	// May says which milliseconds a process learned that it may stamp.
	May Kind = "may"
	// Stamp is an ID.
	Stamp Kind = "stamp"
	// Hold says that a process believes to hold a number, Unhold that it no longer
	// does.
	Hold   Kind = "hold"
	Unhold Kind = "unhold"
	// Lost says that a process gave a number up for good, since the table said that
	// it is not its any more.
	Lost Kind = "lost"
	// Copy says that Who is a copy of the running process Of, made while the version
	// of Node reserved up to Until.
	Copy Kind = "copy"
	// Corrupt says that somebody broke the item of Node by hand.
	Corrupt Kind = "corrupt"
	// Floor says that the pool was told, and has answered, that nothing up to Until is
	// stamped by a node ID that comes to be later.
	Floor Kind = "floor"
	// Note is for readers: a fault, a crash, a pause.
	Note Kind = "note"
)

// Op is the write that an Item is the outcome of.
type Op string

// The writes of the protocol.
const (
	Seed    Op = "seed"
	Claim   Op = "claim"
	Renew   Op = "renew"
	Release Op = "release"
	Abandon Op = "abandon"
	Free    Op = "free" // force release
	Reap    Op = "reap"
	Retire  Op = "retire"
	Raise   Op = "raise"
	Mark    Op = "mark" // with a layout
)

// Event is one thing that happened. Times are milliseconds of the Unix epoch.
type Event struct {
	At   int64 `json:"at"` // true time
	Kind Kind  `json:"kind"`
	// Who is the process: the holder of an Item, the maker of a Stamp.
	Who     int   `json:"who,omitempty"`
	Of      int   `json:"of,omitempty"` // of a Copy: the process that was copied
	Node    int   `json:"node,omitempty"`
	Version int64 `json:"version,omitempty"` // of a Stamp: 0 = not known

	// Of an Item.
	Op        Op    `json:"op,omitempty"`
	Held      bool  `json:"held,omitempty"`
	Renewal   int64 `json:"renewal,omitempty"`
	NotBefore int64 `json:"not_before,omitempty"`
	Expires   int64 `json:"expires,omitempty"`
	// Until is an Item's reserved_until, or the last millisecond of a May.
	Until   int64         `json:"until,omitempty"`
	TTL     time.Duration `json:"ttl,omitempty"`
	Retired bool          `json:"retired,omitempty"`

	// Of a Stamp: the ID and its millisecond.
	ID int64 `json:"id,omitempty"`
	MS int64 `json:"ms,omitempty"`

	// Of a World: the clocks kept inside the bound, so S2 is judged.
	Bounded bool   `json:"bounded,omitempty"`
	Text    string `json:"text,omitempty"`
}
