package protocol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Note is the item by which the releases of a pool find those who wait for one of its
// node IDs: partition "<pool>#note", node ID 0. It has hints alone: whoever believes one
// sends a claim, and the condition of the claim decides. Losing it is always safe.
type Note struct {
	Pool string
	// Until is the time up to which somebody waits; zero: nobody ever did.
	Until time.Time
	// Offers are node IDs that were released while somebody waited, in no order.
	Offers []Offer
}

// Offer is a node ID that its holder released.
type Offer struct {
	NodeID int
	MS     int64 // when, by the releaser's clock
}

const (
	// NoteSpan is how far ahead a waiting claimant writes Until.
	NoteSpan = time.Minute
	// noteFar is how far ahead Until counts: it bounds for how long a wrong clock makes
	// releases write.
	noteFar = 2 * NoteSpan
	// NotePlaces is how many offers a note has room for. With all of them it stays below
	// 1 KB, one write unit.
	NotePlaces = 64
	// mostNote is the largest size of a note, in bytes: half a read unit buys as much.
	mostNote = 4 << 10
)

// Awaited reports whether somebody waits at now.
//
// Invariant: a time too far ahead does not count. Its writer's clock was wrong, and
// releases would go on writing for nobody until that time.
func (n Note) Awaited(now time.Time) bool {
	return now.Before(n.Until) && !n.Until.After(now.Add(noteFar))
}

// Due reports whether a claimant that waits at now is to write Until again: so all who
// wait for a pool send one write in half a minute together.
func (n Note) Due(now time.Time) bool {
	return !n.Awaited(now) || n.Until.Before(now.Add(NoteSpan/2))
}

// Wants reports whether a node ID that is released at a time is to be left in the note:
// somebody waits, and has not enough to choose from. A fleet that ends at once would
// otherwise write more than one partition takes.
func (n Note) Wants(at time.Time) bool {
	recent := 0
	for _, o := range n.Offers {
		if at.Sub(time.UnixMilli(o.MS)).Abs() < time.Second {
			recent++
		}
	}
	return n.Awaited(at) && recent < NotePlaces/2
}

// NoteStore is a [Store] that keeps notes. Without one, claimants wait by reading groups.
type NoteStore interface {
	// Note reads a pool's note, eventually consistent; the zero Note with its pool where
	// there is none.
	Note(ctx context.Context, pool string) (Note, error)
	// WriteNote does one conditional write of it, with one attempt. It returns the note
	// after the write, or the one that refused it.
	WriteNote(ctx context.Context, w NoteWrite) (n Note, applied bool, err error)
}

// NoteWrite is one conditional write of a pool's note; see [Write].
type NoteWrite interface {
	PoolName() string
	Apply(old Note) (Note, bool)
}

// Await says that somebody waits.
type Await struct {
	Pool  string
	Seen  time.Time // the Until that was read; zero where there was none
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

// Leave leaves a node ID that was released for those who wait.
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

// Pinned on the time that was read: of those who begin to wait at once one is heard, and
// one that arrives late brings back nothing.
func (w Await) update() update {
	u := update{set: "SET waiting_until = :until", onlyIf: "attribute_not_exists(waiting_until)", values: attributes{":until": millis(w.Until)}}
	if !w.Seen.IsZero() {
		u.onlyIf = "waiting_until = :seen"
		u.values[":seen"] = millis(w.Seen)
	}
	return u
}

// A release writes only while somebody waits, whoever's clock is wrong. Each node ID has
// a place, so that releases at once do not refuse each other, and the note does not grow.
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

// place is the attribute of a node ID's offers.
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

// noteKey is the table's key of a pool's note.
func noteKey(pool string) attributes { return rawKey(pool+"#note", 0) }

// decodeNote reads a note. One that is too large to be polled, or whose time is none, is
// a *CorruptError. An offer that no release writes is left out.
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

// lengthOf is about the size of a value. Values of which a note has none count as too
// large.
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
