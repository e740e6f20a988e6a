package snowflake

import (
	"sync"
	"sync/atomic"
	"time"
)

// A gate is where calls wait for the clock. One of them sleeps, the others park
// until it wakes them: no timer and no goroutine for each, and none when idle.
type gate struct {
	mu       sync.Mutex
	cond     sync.Cond
	sleeping bool
	virtual  atomic.Bool // time stands still while we compute: a synctest bubble
}

// wait returns after about d, or earlier. Callers look at the clock again.
func (t *Timeline) wait(d time.Duration) {
	g := &t.gate
	g.mu.Lock()
	if g.sleeping {
		g.cond.Wait()
		g.mu.Unlock()
		return
	}
	g.sleeping = true
	g.mu.Unlock()
	t.sleep(d)
	g.mu.Lock()
	g.sleeping = false
	g.cond.Broadcast()
	g.mu.Unlock()
}

// maxSleep bounds a sleep, for a call must notice soon that its context has ended
// or its term is over.
const maxSleep = 5 * time.Millisecond

func (t *Timeline) sleep(d time.Duration) {
	d = min(d, maxSleep)
	if s, ok := t.clock.(sleeper); ok {
		s.Sleep(d)
		return
	}
	// With any other clock, time may be virtual: there it moves only when every
	// goroutine waits in a way that the runtime knows, as time.Sleep is.
	if !t.system || t.gate.virtual.Load() || d > 2*time.Millisecond {
		time.Sleep(d)
		return
	}
	before := time.Since(origin)
	preciseSleep(d)
	if time.Since(origin) == before {
		t.gate.virtual.Store(true)
	}
}
