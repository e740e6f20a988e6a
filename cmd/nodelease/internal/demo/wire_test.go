package demo

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// received is the result of readFrames for some bytes.
func received(t *testing.T, in io.Reader) (ids []snowflake.ID, events []taskEvent, err error) {
	t.Helper()
	err = readFrames(in, func(b []snowflake.ID) { ids = append(ids, b...) }, func(e taskEvent) { events = append(events, e) })
	return ids, events, err
}

func TestFrames(t *testing.T) {
	var sent bytes.Buffer
	w := &frameWriter{out: &sent}
	wantIDs := []snowflake.ID{1, 2, 1 << 62, 7}
	wantEvents := []taskEvent{{Kind: lease.EventClaimed, Node: 3, Version: 9}, {Kind: lease.EventLost, Error: "gone"}}
	for _, err := range []error{w.ids(wantIDs[:2]), w.event(wantEvents[0]), w.ids(nil), w.ids(wantIDs[2:]), w.event(wantEvents[1])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ids, events, err := received(t, &sent)
	if err != nil || !reflect.DeepEqual(ids, wantIDs) || !reflect.DeepEqual(events, wantEvents) {
		t.Errorf("got %v %v %v", ids, events, err)
	}
}

// A killed task may leave half a frame. The complete IDs in that half are received.
func TestFramesCutOff(t *testing.T) {
	var sent bytes.Buffer
	w := &frameWriter{out: &sent}
	if err := w.ids([]snowflake.ID{11, 12, 13}); err != nil {
		t.Fatal(err)
	}
	for cut := range sent.Len() + 1 {
		ids, _, err := received(t, bytes.NewReader(sent.Bytes()[:cut]))
		if want := max(0, cut-5) / 8; err != nil || len(ids) != want {
			t.Errorf("from %d bytes got %v, %v; want %d IDs", cut, ids, err, want)
		}
	}
}

func TestFramesOfAnotherLanguage(t *testing.T) {
	for _, text := range []string{"hello, world", "i\xff\xff\xff\xff", "e\x02\x00\x00\x00]["} {
		if _, _, err := received(t, strings.NewReader(text)); err == nil {
			t.Errorf("%q was accepted, want an error", text)
		}
	}
}
