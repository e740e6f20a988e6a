package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"
)

// description holds the holder's metadata. The map is replaced, never changed: claims
// and renewals in flight share it.
type description struct {
	all     map[string]string
	changed bool          // since the claim: renewals carry it from now on
	renewed chan struct{} // closed by the next confirmation; nil if nobody waits
	resume  func()        // BeforeResume
	asking  bool          // resume runs
}

// SetMetadata changes the holder's metadata, name by name: an empty value removes a name,
// and other names do not change. The next renewal carries the change, in the same write
// and for the same one write unit: that of a grown lease may be minutes away, unless
// RenewNow is called. So does the claim of another node ID (Reacquire). It
// may be called at any time, even while the lease is suspended: the renewal that resumes
// the lease then carries it.
//
// Metadata and Config.Task, if set, may have 512 bytes together, as at the start. On
// an error nothing changes.
func (a *Agent) SetMetadata(changes map[string]string) error {
	if a.absent() {
		return errNoAgent
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := Config{Task: a.givenTask, Metadata: map[string]string{}}
	maps.Copy(c.Metadata, a.metadata.all)
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
	a.metadata.all, a.metadata.changed = c.Metadata, true
	return nil
}

// RenewNow makes the agent send the next renewal at once, so that others see a change
// by SetMetadata sooner. It does not wait for it; Renewed reports the confirmation.
func (a *Agent) RenewNow() {
	if a.absent() {
		return
	}
	select {
	case a.nudged <- struct{}{}:
	default: // one is requested already
	}
}

// Renewed returns a channel that is closed when the next renewal, or the claim of
// another node ID, is confirmed. Call it again for the one after. Lease then returns
// the content of the table.
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

// BeforeResume sets a function that is called before a renewal that would resume a
// suspended lease, so that the holder can update its metadata (SetMetadata) in the
// same renewal. The renewal waits for it for up to a second; later ones do not wait
// for a call that still runs. nil removes the function.
func (a *Agent) BeforeResume(fn func()) {
	if a.absent() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadata.resume = fn
}

// announce calls the function set by BeforeResume, if it is due.
func (a *Agent) announce(ctx context.Context) {
	a.mu.Lock()
	fn := a.metadata.resume
	if fn == nil || a.metadata.asking || a.term.Held(a.clock.Monotonic()) {
		a.mu.Unlock()
		return
	}
	a.metadata.asking = true
	a.mu.Unlock()
	done := make(chan struct{})
	go func() { // it may hang, panic, or end its goroutine
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				a.emit(Event{Kind: EventWarning, Lease: a.about(wholePool), Err: fmt.Errorf("lease: BeforeResume panicked: %v\n%s", r, debug.Stack())})
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

// tell wakes callers that wait for a confirmation.
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

// withFacts adds names and values to metadata, except where the bytes do not fit or
// the user has set that name.
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
