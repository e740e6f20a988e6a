// Package history judges the history of a lease table and its holders. It has the
// promises, but not the code that keeps them. It receives, in order, the state of the
// table after each executed write, the beliefs of each process, and every ID, and reports
// which promise is broken, if any:
//
//   - S1: each millisecond of each node ID has at most one holder, ever, and no
//     ID is made twice. This must hold regardless of clocks.
//   - A version grows by one with each claim, and never otherwise.
//   - The reservation never falls below a millisecond that any holder may still stamp.
//   - S2: at most one process at a time believes that it holds a node ID. This is judged
//     only if the clocks were within the bound that the guards tolerate.
//   - A process reports a lease as lost only if it no longer has it.
//   - A process and a copy of it repeat each other's IDs only within the reservation at
//     the time of the copy, and never the IDs of others. After that reservation, only one
//     of the two continues, unless both have requested the same milliseconds.
//   - An item that was broken by hand is not used again.
//   - A release reserves no more than was reserved before.
//   - The first holder of a new node ID begins at the pool's floor, or after it.
//
// A history can be saved and judged again, with the same verdict: see [Recorder.Save] and
// [Replay].
package history

import "time"

// Kind is the kind of an Event.
type Kind string

// The kinds of events.
const (
	// World begins a history. It describes the run and states whether S2 is judged.
	World Kind = "world"
	// Item is a node ID's item after an executed write.
	Item Kind = "item"
	// May has the milliseconds that a process was told it may stamp.
	May Kind = "may"
	// Stamp is an ID.
	Stamp Kind = "stamp"
	// Hold means that a process believes it holds a node ID, Unhold that it no
	// longer does.
	Hold   Kind = "hold"
	Unhold Kind = "unhold"
	// Lost means that a process gave up a node ID permanently, since it found in the table
	// that it no longer has it.
	Lost Kind = "lost"
	// Copy means that Who is a copy of the running process Of, made while Version of Node
	// had milliseconds reserved up to Until.
	Copy Kind = "copy"
	// Ask means that Who, which was copied or is a copy, sends a renewal that requests the
	// milliseconds up to Until. Its answer may be lost.
	Ask Kind = "ask"
	// Corrupt means that the item of Node was broken by hand.
	Corrupt Kind = "corrupt"
	// Skip means that Who has skipped Node, whose item is corrupt, and that everything has
	// worked since Until.
	Skip Kind = "skip"
	// Floor means that the pool has been raised: node IDs created later stamp only
	// milliseconds after Until.
	Floor Kind = "floor"
	// Note is for readers: a fault, a crash, a pause.
	Note Kind = "note"
)

// Op is the write that resulted in an Item.
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
	Mark    Op = "mark" // with a try to change the width
)

// Event is one event of a history. Times are milliseconds of the Unix epoch.
type Event struct {
	At   int64 `json:"at"` // true time
	Kind Kind  `json:"kind"`
	// Process number: the holder of an Item, or the maker of a Stamp.
	Who     int   `json:"who,omitempty"`
	Of      int   `json:"of,omitempty"` // of a Copy: the process that was copied
	Node    int   `json:"node,omitempty"`
	Version int64 `json:"version,omitempty"` // of a Stamp: 0 = unknown

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

	// Of a World: the clocks stayed within the bound, so S2 is judged.
	Bounded bool   `json:"bounded,omitempty"`
	Text    string `json:"text,omitempty"`
}
