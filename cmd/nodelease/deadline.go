package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/supervise"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

// deadlineVariable is the environment variable in which exec passes the path of the
// deadline file to its program.
const deadlineVariable = "NODELEASE_DEADLINE_FILE"

// deadline is the content of the deadline file, which is one line of JSON.
type deadline struct {
	State    string    `json:"state"` // held, suspended, lost or released
	NodeID   int       `json:"node_id"`
	Version  int64     `json:"version"`
	Deadline time.Time `json:"deadline"` // by the wall clock, which somebody may set
	// BootNS is the deadline by CLOCK_BOOTTIME, in nanoseconds; 0 if there is no such
	// clock.
	BootNS int64 `json:"boottime_ns,omitempty"`
}

// deadlineFile is a file that always has the lease's last state. The file is replaced as
// a whole, so that a reader sees either the previous state or the new one. An outdated
// state has an earlier deadline, never a later one.
type deadlineFile struct {
	path  string // "": no file is written
	name  string
	dir   *os.Root // pinned: later changes of the path have no effect
	agent keeper
	log   *slog.Logger
	lease lease.Lease

	news    chan struct{}
	mu      sync.Mutex
	state   string
	stopped chan struct{}
}

// newDeadlineFile checks that the file can be written before a node ID is claimed.
func newDeadlineFile(path string) (*deadlineFile, error) {
	f := &deadlineFile{news: make(chan struct{}, 1), state: "held"}
	if path == "" {
		return f, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("deadline file: %w", err)
	}
	f.path, f.name = path, filepath.Base(path)
	if f.dir, err = os.OpenRoot(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("deadline file %s: cannot use its directory: %w", text.Line(path), err)
	}
	// A symbolic link would be replaced, not followed, and its target is probably the
	// file that was meant.
	if is, err := f.dir.Lstat(f.name); err == nil && !is.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("deadline file %s is not a regular file: choose another path, or remove it", text.Line(path)), f.dir.Close())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("deadline file: %w", err), f.dir.Close())
	}
	return f, nil
}

// follow writes the file now, and again at each change.
func (f *deadlineFile) follow(agent keeper, l lease.Lease, log *slog.Logger) error {
	if f.path == "" {
		return nil
	}
	f.agent, f.lease, f.log = agent, l, log
	if err := f.write("held"); err != nil {
		return fmt.Errorf("deadline file: %w", err)
	}
	f.stopped = make(chan struct{})
	go func() {
		defer close(f.stopped)
		warned := false
		for range f.news {
			f.mu.Lock()
			state := f.state
			f.mu.Unlock()
			if err := f.write(state); err != nil && !warned {
				warned = true
				log.Warn("the deadline file cannot be written; its contents are out of date", "file", f.path, "error", err)
			}
		}
	}()
	return nil
}

// changed records the new state of the lease. It never blocks, because a disk that hangs
// must not delay a renewal.
func (f *deadlineFile) changed(e lease.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Kind {
	case lease.EventClaimed, lease.EventRenewed, lease.EventResumed:
		f.state = "held"
	case lease.EventSuspended:
		f.state = "suspended"
	case lease.EventLost:
		f.state = "lost"
	case lease.EventReleased, lease.EventNotReleased:
		f.state = "released"
	default:
		return
	}
	if f.path == "" || f.news == nil {
		return
	}
	select {
	case f.news <- struct{}{}:
	default: // the writer will see the latest state
	}
}

// close writes the last state and stops the writer.
func (f *deadlineFile) close() {
	f.mu.Lock()
	news := f.news
	f.news = nil
	f.mu.Unlock()
	if f.path == "" || news == nil {
		return
	}
	close(news)
	if f.stopped != nil {
		<-f.stopped
	}
	_ = f.dir.Close()
}

// write replaces the file. It reads the clocks before it reads the time left, so that a
// pause in between makes the deadline earlier, never later.
func (f *deadlineFile) write(state string) error {
	boot, hasBoot := supervise.BootTime()
	wall := time.Now()
	left := f.agent.Left()
	d := deadline{State: state, NodeID: f.lease.NodeID, Version: f.lease.Version, Deadline: wall.Add(left).UTC().Truncate(time.Millisecond)}
	if hasBoot {
		d.BootNS = int64(boot + left)
	}
	line, err := text.MarshalJSON(d)
	if err != nil {
		return err
	}
	next := fmt.Sprintf(".%s.%x", f.name, rand.Uint64())
	file, err := f.dir.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = f.dir.Rename(next, f.name)
	}
	if err != nil {
		err = errors.Join(err, f.dir.Remove(next))
	}
	return err
}
