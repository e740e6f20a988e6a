package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"
)

// description holds the holder's metadata. A change replaces the map and never modifies
// it, because claims and renewals in flight share the map.
type description struct {
	all     map[string]string
	facts   [][2]string   // entries that the agent adds where there is room; see owner.introduce
	changed bool          // the metadata has changed since the claim, so renewals write it
	renewed chan struct{} // closed by the next confirmation; nil if nobody waits
	resume  func()        // the function that beforeResume set
	asking  bool          // resume is running
}

// SetMetadata changes the named entries of the holder's metadata and keeps all other
// entries. An empty value removes an entry. The next renewal, or the claim of another
// node ID (Reacquire), writes the change at no extra cost. If the lease has grown, the
// next renewal may be minutes away; RenewNow sends a renewal at once. SetMetadata may be
// called at any time; if the lease is suspended, the renewal that resumes the lease
// writes the change.
//
// As in Config, the metadata and Config.Task, if set, may have at most 512 bytes
// together. Entries that the agent added itself, such as the zone of an ECS task, do not
// count: they give way where room is short. If SetMetadata returns an error, nothing changes.
func (a *Agent) SetMetadata(changes map[string]string) error {
	if a.absent() {
		return errNoAgent
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := Config{Task: a.givenTask, Metadata: map[string]string{}}
	maps.Copy(c.Metadata, a.metadata.all)
	for _, fact := range a.metadata.facts { // only the user's entries count
		delete(c.Metadata, fact[0])
	}
	for name, value := range changes {
		switch {
		case name == "":
			return errors.New("lease: SetMetadata: an empty name")
		case value == "":
			delete(c.Metadata, name)
		default:
			c.Metadata[name] = value
		}
	}
	if text := c.text(); text > maxText {
		return fmt.Errorf("lease: SetMetadata: Task and metadata would have %d bytes together, at most %d keep a renewal at one write unit: shorten them", text, maxText)
	}
	facts := slices.DeleteFunc(slices.Clone(a.metadata.facts), func(fact [2]string) bool {
		_, given := changes[fact[0]] // from now on the entry is the user's, or removed
		return given
	})
	c.Task = a.cfg.Task
	a.metadata.all, a.metadata.facts, a.metadata.changed = withFacts(c.Metadata, maxText-c.text(), facts), facts, true
	return nil
}

// RenewNow makes the agent send the next renewal at once, so that other processes see a
// change by SetMetadata sooner. RenewNow does not wait for the answer; use Renewed to
// wait for the confirmation.
func (a *Agent) RenewNow() {
	if a.absent() {
		return
	}
	select {
	case a.nudged <- struct{}{}:
	default: // a renewal is requested already
	}
}

// Renewed returns a channel that is closed when the next renewal, or the claim of another
// node ID, is confirmed. From then on, Lease returns what the confirmed write stored in
// the table. To wait for another confirmation, call Renewed again.
func (a *Agent) Renewed() <-chan struct{} {
	if a.absent() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.metadata.renewed == nil {
		a.metadata.renewed = make(chan struct{})
	}
	return a.metadata.renewed
}

// beforeResume is [siblings.BeforeResume].
func (a *Agent) beforeResume(fn func()) {
	if a.absent() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadata.resume = fn
}

// announce calls the function set by beforeResume if the lease is suspended or lost.
func (a *Agent) announce(ctx context.Context) {
	a.mu.Lock()
	fn := a.metadata.resume
	if fn == nil || a.metadata.asking || a.term == nil || a.over == nil && a.term.Held(a.clock.Monotonic()) {
		a.mu.Unlock()
		return
	}
	a.metadata.asking = true
	a.mu.Unlock()
	done := make(chan struct{})
	go func() { // fn may hang, panic, or end its goroutine
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: fmt.Errorf("lease: what a cluster does before a resume panicked: %v\n%s", r, debug.Stack())})
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.metadata.asking = false
		}()
		fn()
	}()
	limit := time.NewTimer(renewLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-limit.C:
	}
}

// tell wakes the callers that wait for a confirmation (Renewed).
func (d *description) tell() {
	if d.renewed != nil {
		close(d.renewed)
		d.renewed = nil
	}
}

// metadataNow returns the metadata for a claim.
func (a *Agent) metadataNow() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.metadata.all
}

// withFacts returns metadata with the facts added. It leaves out facts that do not fit
// into room bytes or whose name the user has set.
func withFacts(metadata map[string]string, room int, facts [][2]string) map[string]string {
	out := maps.Clone(metadata)
	for _, fact := range facts {
		name, value := fact[0], fact[1]
		size := len(name) + len(value)
		if _, given := out[name]; given || value == "" || size > room {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
		room -= size
	}
	return out
}
