package protocol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Note is the item in which claimants announce that they are waiting for a node ID of the
// pool, and in which releases leave node IDs for them. Its partition is "<pool>#note" and
// its node ID is 0. A note has only hints: a claimant that follows one sends a claim, and
// the condition of the claim decides. Losing the note is always safe.
type Note struct {
	Pool string
	// Until is the time up to which some claimant waits; zero if none ever did.
	Until time.Time
	// Offers are node IDs that were released while a claimant waited, in no order.
	Offers []Offer
}

// Offer is a node ID that its holder released.
type Offer struct {
	NodeID int
	MS     int64 // when it was released, by the releaser's clock
}

const (
	// NoteSpan is how far ahead a waiting claimant writes Until.
	NoteSpan = time.Minute
	// noteFar is how far ahead Until may be. It bounds how long a wrong clock can make
	// releases write to the note.
	noteFar = 2 * NoteSpan
	// NotePlaces is how many offers a note has room for. A note with that many offers is
	// smaller than 1 KB, so each write costs one write unit.
	NotePlaces = 64
	// mostNote is the maximum size of a note, in bytes: an eventually consistent read of
	// this size costs half a read unit.
	mostNote = 4 << 10
)

// Awaited reports whether a claimant waits at now.
//
// Invariant: an Until too far ahead is ignored. The clock of its writer was wrong, and
// until that time releases would write offers for nobody.
func (n Note) Awaited(now time.Time) bool {
	return now.Before(n.Until) && !n.Until.After(now.Add(noteFar))
}

// Due reports whether a claimant that waits at now should write Until again. Together, all
// claimants that wait for a pool send only one write every half minute.
func (n Note) Due(now time.Time) bool {
	return !n.Awaited(now) || n.Until.Before(now.Add(NoteSpan/2))
}

// Wants reports whether a node ID that is released at a given time should be left in the
// note: a claimant must be waiting, and the note must have few recent offers. Without the
// second condition, a whole fleet that ends at once would send more writes than one
// partition accepts.
func (n Note) Wants(at time.Time) bool {
	recent := 0
	for _, o := range n.Offers {
		if at.Sub(time.UnixMilli(o.MS)).Abs() < time.Second {
			recent++
		}
	}
	return n.Awaited(at) && recent < NotePlaces/2
}

// NoteStore is a [Store] that keeps notes. With a store that has none, waiting claimants
// read groups.
type NoteStore interface {
	// Note reads a pool's note, eventually consistent. If there is none, it returns a
	// Note with only the pool's name.
	Note(ctx context.Context, pool string) (Note, error)
	// WriteNote does one conditional write of a note, with one attempt. It returns the
	// note after the write, or, if the condition was not met, the note as it is.
	WriteNote(ctx context.Context, w NoteWrite) (n Note, applied bool, err error)
}

// NoteWrite is one conditional write of a pool's note; see [Write].
type NoteWrite interface {
	PoolName() string
	Apply(old Note) (Note, bool)
}

// Await announces that a claimant waits.
type Await struct {
	Pool  string
	Seen  time.Time // the Until that was read; zero if there was none
	Until time.Time
}

// PoolName implements [NoteWrite].
func (w Await) PoolName() string { return w.Pool }

// Apply implements [NoteWrite].
func (w Await) Apply(old Note) (Note, bool) {
	if !old.Until.Equal(Trunc(w.Seen)) {
		return Note{}, false
	}
	n := old
	n.Pool, n.Until = w.Pool, Trunc(w.Until)
	return n, true
}

// Leave leaves a released node ID for the claimants that wait.
type Leave struct {
	Pool   string
	NodeID int
	At     time.Time
}

// PoolName implements [NoteWrite].
func (w Leave) PoolName() string { return w.Pool }

// Apply implements [NoteWrite].
func (w Leave) Apply(old Note) (Note, bool) {
	if old.Until.Before(Trunc(w.At).Add(time.Millisecond)) || old.Until.After(Trunc(w.At.Add(noteFar))) {
		return Note{}, false
	}
	n := old
	n.Offers = slices.DeleteFunc(slices.Clone(old.Offers), func(o Offer) bool { return place(o.NodeID) == place(w.NodeID) })
	n.Offers = append(n.Offers, Offer{w.NodeID, w.At.UnixMilli()})
	return n, true
}

// The write is conditional on the Until that the sender has read. So of several claimants
// that begin to wait at once, only one writes, and a write that arrives late does not
// replace a newer Until.
func (w Await) update() update {
	u := update{set: "SET waiting_until = :until", onlyIf: "attribute_not_exists(waiting_until)", values: attributes{":until": millis(w.Until)}}
	if !w.Seen.IsZero() {
		u.onlyIf = "waiting_until = :seen"
		u.values[":seen"] = millis(w.Seen)
	}
	return u
}

// A release is written only if waiting_until is later than the release, but not too far
// ahead of it, whatever the clocks read. The name of the attribute follows from the node
// ID, so concurrent releases do not refuse each other, and the note does not grow.
func (w Leave) update() update {
	return update{
		set:    "SET " + place(w.NodeID) + " = :offer",
		onlyIf: "waiting_until BETWEEN :after AND :far",
		values: attributes{
			":offer": num(w.At.UnixMilli()*MaxPoolSize + int64(w.NodeID)),
			":after": millis(w.At.Add(time.Millisecond)), ":far": millis(w.At.Add(noteFar)),
		},
	}
}

// place returns the attribute for a node ID's offer. Node IDs that are equal modulo
// NotePlaces share an attribute.
func place(node int) string { return "o" + strconv.Itoa(node%NotePlaces) }

// Note implements [NoteStore].
func (d *DynamoDB) Note(ctx context.Context, pool string) (Note, error) {
	out, err := d.read(ctx, noteKey(pool), false)
	if err != nil {
		return Note{}, err
	}
	return decodeNote(pool, out.Item)
}

// WriteNote implements [NoteStore].
func (d *DynamoDB) WriteNote(ctx context.Context, w NoteWrite) (Note, bool, error) {
	u, ok := w.(interface{ update() update })
	if !ok {
		return Note{}, false, fmt.Errorf("lease: %T is not a write of this package", w)
	}
	av, applied, err := d.send(ctx, noteKey(w.PoolName()), u.update())
	if err != nil {
		return Note{}, false, explain(err, "UpdateItem", d.table)
	}
	if len(av) == 0 { // refused, and the answer has no item: DynamoDB Local may leave it out
		n, err := d.Note(ctx, w.PoolName())
		return n, false, err
	}
	n, err := decodeNote(w.PoolName(), av)
	return n, applied, err
}

// noteKey returns the table's key of a pool's note.
func noteKey(pool string) attributes { return rawKey(pool+"#note", 0) }

// decodeNote decodes a note. The error is a *CorruptError if the note is too large to be
// polled, or if its time is not plausible. Offers that no release would write are left
// out.
func decodeNote(pool string, av attributes) (Note, error) {
	n := Note{Pool: pool}
	size := 0
	for name, v := range av {
		size += len(name) + lengthOf(v)
	}
	if size > mostNote || Trimmed(av) != nil {
		return Note{}, &CorruptError{Pool: pool, NodeID: poolNode, Err: fmt.Errorf("the note of those who wait is larger than %d bytes", mostNote)}
	}
	if v := av["waiting_until"]; v != nil {
		ms, err := strconv.ParseInt(numberOf(v), 10, 64)
		if err != nil || !plausible(ms) {
			return Note{}, &CorruptError{Pool: pool, NodeID: poolNode, Err: fmt.Errorf("waiting_until of the note of those who wait is %q", numberOf(v))}
		}
		n.Until = time.UnixMilli(ms).UTC()
	}
	for i := range NotePlaces {
		packed, err := strconv.ParseInt(numberOf(av[place(i)]), 10, 64)
		if o := (Offer{int(packed % MaxPoolSize), packed / MaxPoolSize}); err == nil && packed >= 0 && plausible(o.MS) && place(o.NodeID) == place(i) {
			n.Offers = append(n.Offers, o)
		}
	}
	return n, nil
}

// lengthOf returns roughly the size of a value. A value of a type that no note has counts
// as too large.
func lengthOf(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return 1
	}
	return mostNote
}
