package protocoltest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// reaperMemory checks the memory of a pool's reaper, including the largest scan: 6 bytes
// for each of 65,536 candidates.
func reaperMemory(t *testing.T, s protocol.Store) {
	look := &protocol.ReaperLook{Ended: at(7), Wait: 40 * time.Second, Count: 1, Held: 9, Candidates: "ABCDEF"}
	large := &protocol.ReaperLook{Ended: at(9), Wait: time.Hour, Count: 2, Held: protocol.MaxPoolSize, Braked: true, Candidates: strings.Repeat("ABCDEF", protocol.MaxPoolSize)}
	cur := protocol.ReaperMemory{Pool: "p"}
	for i, c := range []struct {
		w       protocol.MemoryWrite
		applied bool
	}{
		{protocol.Remember{Pool: "p", Seen: "z", New: "y", Look: look}, false}, // there is no memory
		{protocol.Remember{Pool: "p", New: "a", Look: look}, true},
		{protocol.Remember{Pool: "p", New: "b", Look: look}, false},            // there is a memory
		{protocol.Remember{Pool: "p", Seen: "a", New: "c"}, true},              // the scan is taken
		{protocol.Remember{Pool: "p", Seen: "a", New: "c"}, false},             // only the first writer takes it
		{protocol.Remember{Pool: "p", Seen: "a", New: "d", Look: look}, false}, // a replay
		{protocol.Remember{Pool: "p", Seen: "c", New: "e", Look: large}, true},
		{protocol.Forget{Pool: "p", New: "f"}, true},
		{protocol.Forget{Pool: "p", New: "f"}, true},
		{protocol.Remember{Pool: "p", Seen: "e", New: "g", Look: look}, false}, // cleared meanwhile
		{protocol.Remember{Pool: "p", Seen: "f", New: "h", Look: look}, true},
	} {
		want, applies := c.w.Apply(cur)
		applied, err := s.WriteReaperMemory(t.Context(), c.w)
		if err != nil || applied != c.applied || applies != c.applied {
			t.Fatalf("%d: %T: applied %v by the store, %v by Apply, want %v, %v", i, c.w, applied, applies, c.applied, err)
		}
		if applied {
			cur = want
		}
		if got, err := s.ReaperMemory(t.Context(), "p"); err != nil || !reflect.DeepEqual(got, cur) {
			t.Fatalf("%d: %T: got %+v, %v, want %+v", i, c.w, got, err, cur)
		}
	}
	if got, err := s.ReaperMemory(t.Context(), "q"); err != nil || got != (protocol.ReaperMemory{Pool: "q"}) {
		t.Errorf("another pool's memory: %+v, %v", got, err)
	}
}
