package protocoltest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// notes checks a pool's note, if the store keeps notes.
func notes(t *testing.T, store protocol.Store) {
	s, ok := store.(protocol.NoteStore)
	if !ok {
		t.Skipf("%T keeps no notes", store)
	}
	const span, far = protocol.NoteSpan, 2 * protocol.NoteSpan
	await := func(seen, until time.Time) protocol.Await { return protocol.Await{Pool: "p", Seen: seen, Until: until} }
	leave := func(node, ms int) protocol.Leave { return protocol.Leave{Pool: "p", NodeID: node, At: at(ms)} }
	first, second := at(0).Add(span), at(40_000).Add(span)
	cur := protocol.Note{Pool: "p"}
	for i, c := range []struct {
		what    string
		w       protocol.NoteWrite
		applied bool
	}{
		{"nobody ever waited", leave(1, 0), false},
		{"the time that was seen is not there", await(at(0), first), false},
		{"the first who waits", await(time.Time{}, first), true},
		{"the second who saw nobody", await(time.Time{}, at(1).Add(span)), false},
		{"a release", leave(1, 10), true},
		{"the same release again", leave(1, 10), true},
		{"another one", leave(2, 11), true},
		{"the highest node ID", leave(protocol.MaxPoolSize-1, 12), true},
		{"one in the place of the first", leave(1+protocol.NotePlaces, 13), true},
		{"somebody waits on", await(first, second), true},
		{"the same write, late", await(first, second), false},
		{"the last moment", leave(3, int((second.Sub(at(0)) - time.Millisecond).Milliseconds())), true},
		{"nobody waits any more", leave(4, int(second.Sub(at(0)).Milliseconds())), false},
		{"a clock that is behind, just", leave(5, int((second.Add(-far).Sub(at(0))).Milliseconds())), true},
		{"a clock that is too far behind", leave(6, int((second.Add(-far).Sub(at(0)) - time.Millisecond).Milliseconds())), false},
		{"a wrong clock", await(second, at(0).Add(1000*time.Hour)), true},
		{"a release in the years that it would have lasted", leave(7, 20), false},
		{"a right clock", await(at(0).Add(1000*time.Hour), first), true},
		{"a release", leave(7, 20), true},
	} {
		want, applies := c.w.Apply(cur)
		got, applied, err := s.WriteNote(t.Context(), c.w)
		if err != nil || applied != c.applied || applies != c.applied {
			t.Fatalf("%d, %s: applied %v by the store, %v by Apply, want %v, %v", i, c.what, applied, applies, c.applied, err)
		}
		if applied {
			cur = want
		}
		if !sameNote(got, cur) {
			t.Fatalf("%d, %s: got %+v, want %+v", i, c.what, got, cur)
		}
		if got, err := s.Note(t.Context(), "p"); err != nil || !sameNote(got, cur) {
			t.Fatalf("%d, %s: read %+v, %v, want %+v", i, c.what, got, err, cur)
		}
	}
	if got, err := s.Note(t.Context(), "q"); err != nil || !sameNote(got, protocol.Note{Pool: "q"}) {
		t.Errorf("another pool's note: %+v, %v", got, err)
	}
	for n := range 3 * protocol.NotePlaces {
		if _, applied, err := s.WriteNote(t.Context(), leave(n, 30)); err != nil || !applied {
			t.Fatalf("release %d: applied %v, %v", n, applied, err)
		}
	}
	if got, err := s.Note(t.Context(), "p"); err != nil || len(got.Offers) != protocol.NotePlaces {
		t.Errorf("got %d offers after many, %v, want %d", len(got.Offers), err, protocol.NotePlaces)
	}
}

// sameNote compares notes, whose offers are in no order.
func sameNote(a, b protocol.Note) bool {
	sorted := func(n protocol.Note) []protocol.Offer {
		return slices.SortedFunc(slices.Values(n.Offers), func(a, b protocol.Offer) int { return a.NodeID - b.NodeID })
	}
	return a.Pool == b.Pool && a.Until.Equal(b.Until) && reflect.DeepEqual(sorted(a), sorted(b))
}
