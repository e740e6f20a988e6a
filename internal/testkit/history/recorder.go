package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Recorder keeps a history and judges it as it grows. It is safe for concurrent
// use: the order of the calls is the order of the history.
type Recorder struct {
	mu      sync.Mutex
	checker Checker
	events  []Event
	err     error
}

// Add records an event. It returns the first broken promise, in the call that broke it and
// in every later call.
func (r *Recorder) Add(e Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.events = append(r.events, e)
	if err := r.checker.Add(e); err != nil {
		r.err = fmt.Errorf("event %d: %w", len(r.events)-1, err)
	}
	return r.err
}

// Err returns the first broken promise, or nil while there is none.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Len returns the number of events.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Tail returns the last n events about a node ID, and the notes in between.
func (r *Recorder) Tail(node, n int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for i := len(r.events) - 1; i >= 0 && len(lines) < n; i-- {
		if e := r.events[i]; e.Node == node && e.Kind != World || e.Kind == Note {
			text, _ := json.Marshal(e) // cannot fail: a struct of numbers and strings
			lines = append(lines, fmt.Sprintf("%7d %s", i, text))
		}
	}
	for i, j := 0, len(lines)-1; i < j; i, j = i+1, j-1 {
		lines[i], lines[j] = lines[j], lines[i]
	}
	return strings.Join(lines, "\n")
}

// Failure describes the broken promise with the last events of its node ID. It saves the
// whole history in a file, and names the command that judges the file again.
func (r *Recorder) Failure() string {
	err := r.Err()
	r.mu.Lock()
	node := r.events[len(r.events)-1].Node
	r.mu.Unlock()
	saved := "go test ./internal/testkit/history -run TestReplay -trace "
	if path, err := r.Save(); err != nil {
		saved = "the trace was not saved: " + err.Error()
	} else {
		saved += path
	}
	return fmt.Sprintf("%v\njudge it again: %s\n%s", err, saved, r.Tail(node, 60))
}

// Save writes the history to a new file, with one JSON object per line.
func (r *Recorder) Save() (path string, err error) {
	f, err := os.CreateTemp("", "history-*.jsonl")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if err := enc.Encode(e); err != nil {
			return "", err
		}
	}
	return filepath.ToSlash(f.Name()), w.Flush()
}

// Replay judges a saved history. Its error is the one that the history's recorder returned.
func Replay(r io.Reader) (events int, err error) {
	dec := json.NewDecoder(r)
	rec := Recorder{}
	for {
		var e Event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return rec.Len(), rec.Err()
		} else if err != nil {
			return rec.Len(), err
		}
		_ = rec.Add(e)
	}
}
