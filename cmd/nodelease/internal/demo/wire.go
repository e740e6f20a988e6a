package demo

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A task receives messages as JSON on its stdin: first a taskSpec, then orders. When its
// stdin ends, the task ends.

// taskSpec configures a task. The durations have the same meaning as in lease.Config.
type taskSpec struct {
	Name, Endpoint, Table, Pool  string
	TTL, Guard, ClaimGuard, Wait time.Duration
	MaxTTL                       time.Duration

	Member    bool          // whether the task is a member of the fleet's cluster
	Reacquire bool          // claim another node ID after a loss; otherwise the task ends
	ClockOff  time.Duration // the initial error of the task's wall clock
}

// order is a message to a running task.
type order struct {
	ClockStep time.Duration // how far to move the wall clock
}

// A task sends its messages as frames on its stdout. A frame has a kind (1 byte), the length
// of the payload (4 bytes, little-endian), and the payload.
const (
	frameIDs   = 'i' // 8 bytes each, little-endian
	frameEvent = 'e' // a taskEvent as JSON
)

// These are the kinds of events that a task reports in addition to those of its lease agent.
const (
	eventBehind   lease.EventKind = "behind"    // the clock stepped back, so no IDs are made for now
	eventCaughtUp lease.EventKind = "caught_up" // IDs are made again
)

// taskEvent is a lease.Event on its way to the director.
type taskEvent struct {
	Kind    lease.EventKind
	Node    int
	Version int64
	IDsLeft time.Duration // until the task can no longer make IDs without an answer
	Error   string        `json:",omitempty"`
}

const maxFrame = 1 << 20

// frameWriter writes frames, each in one write; it is safe for concurrent use.
type frameWriter struct {
	mu  sync.Mutex
	out io.Writer
	buf []byte
}

func (w *frameWriter) ids(ids []snowflake.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(frameIDs)
	for _, id := range ids {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(id)) //nolint:gosec // an ID is not negative
	}
	return w.end()
}

func (w *frameWriter) event(e taskEvent) error {
	payload, err := json.Marshal(e)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(frameEvent)
	w.buf = append(w.buf, payload...)
	return w.end()
}

func (w *frameWriter) begin(kind byte) { w.buf = append(w.buf[:0], kind, 0, 0, 0, 0) }

func (w *frameWriter) end() error {
	binary.LittleEndian.PutUint32(w.buf[1:], uint32(len(w.buf)-5)) //nolint:gosec // a frame is short
	_, err := w.out.Write(w.buf)
	return err
}

// readFrames reads frames until in ends. A task that was killed may leave half a frame.
// readFrames passes on the complete IDs in that half, because they have left the task.
func readFrames(in io.Reader, ids func([]snowflake.ID), event func(taskEvent)) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var head [5]byte
	var payload []byte
	var batch []snowflake.ID
	for {
		if _, err := io.ReadFull(r, head[:]); err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return err
		}
		size := binary.LittleEndian.Uint32(head[1:])
		if size > maxFrame {
			return fmt.Errorf("a frame of %d bytes from a task: it does not speak the demo's protocol", size)
		}
		payload = append(payload[:0], make([]byte, size)...)
		n, err := io.ReadFull(r, payload)
		switch head[0] {
		case frameIDs:
			batch = batch[:0]
			for p := payload[:n]; len(p) >= 8; p = p[8:] {
				batch = append(batch, snowflake.ID(binary.LittleEndian.Uint64(p))) //nolint:gosec // the 64 bits that were sent
			}
			ids(batch)
		case frameEvent:
			var e taskEvent
			if err == nil {
				if err := json.Unmarshal(payload, &e); err != nil {
					return err
				}
				event(e)
			}
		default:
			return fmt.Errorf("a frame of kind %q from a task: it does not speak the demo's protocol", head[0])
		}
		if err != nil {
			return nil // the frame is cut off because the task is dead
		}
	}
}
