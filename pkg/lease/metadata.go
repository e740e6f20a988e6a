package lease

import (
	"errors"
	"fmt"
	"maps"
)

// description is what the holder says of itself. Its map is replaced, never
// changed: claims and renewals that are under way share it.
type description struct {
	all     map[string]string
	changed bool          // since the claim: renewals carry it from now on
	renewed chan struct{} // closed by the next confirmation; nil if nobody waits
	resume  func()        // BeforeResume
}

// SetMetadata changes what the holder says of itself, name by name: an empty
// value takes a name away, and names that are not given stay as they are. The
// next renewal carries it, in the same write and for the same one write unit;
// so does the claim of another number (Reacquire). It may be called at any time,
// also while the lease is suspended: the renewal that resumes it then says so.
//
// Together with Config.Task it may have 512 bytes. On an error nothing changes.
func (a *Agent) SetMetadata(changes map[string]string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := Config{Task: a.cfg.Task, Metadata: map[string]string{}}
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

// Renewed is closed when the next renewal is confirmed, or the claim of another
// number; ask again for the one after. Lease then tells what the table holds.
func (a *Agent) Renewed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.metadata.renewed == nil {
		a.metadata.renewed = make(chan struct{})
	}
	return a.metadata.renewed
}

// BeforeResume sets what is called before a renewal is sent whose confirmation
// would resume a suspended lease, so that the holder can say by SetMetadata, with
// that very renewal, what has changed meanwhile. The renewal waits for it. nil
// takes it away.
func (a *Agent) BeforeResume(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metadata.resume = fn
}

// announce calls what was set by BeforeResume, if it is time.
func (a *Agent) announce() {
	a.mu.Lock()
	fn := a.metadata.resume
	if a.term.held(a.clock.Monotonic()) {
		fn = nil
	}
	a.mu.Unlock()
	if fn != nil {
		fn()
	}
}

// tell lets those go on who wait for a confirmation.
func (d *description) tell() {
	if d.renewed != nil {
		close(d.renewed)
		d.renewed = nil
	}
}

// metadataNow is what a claim says.
func (a *Agent) metadataNow() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.metadata.all
}

// withFacts adds names and values to metadata where there is room for them, in
// bytes, and the user has not given that name.
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
