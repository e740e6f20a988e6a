package lease

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// outletRoom is how many events wait for a slow function. An agent with the default
// TTL makes that many in twenty minutes.
const outletRoom = 256

// outlet passes events on to one function of the user's (the log, OnEvent), in
// order, from a goroutine that lives only while events wait.
//
// Whatever the function does, the agent is safe: the function may be slow or hang
// (the oldest events are dropped, and counted), panic (which is reported to the other
// outlet) or end its goroutine.
type outlet struct {
	name   string
	fn     func(Event)
	report func(Event) // reports the end of fn to the other outlet

	mu      sync.Mutex
	queue   []Event
	dropped int           // since the last report of drops to fn
	done    chan struct{} // closed when the goroutine ends; nil when there is none
}

func (o *outlet) tell(e Event) {
	if o.fn == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == outletRoom {
		o.queue = o.queue[1:]
		o.dropped++
	}
	o.queue = append(o.queue, e)
	if o.done == nil {
		o.done = make(chan struct{})
		go o.run()
	}
}

func (o *outlet) run() {
	ended := false
	defer func() {
		if !ended { // by runtime.Goexit: another goroutine does the rest
			go o.run()
		}
	}()
	for e, ok := o.next(); ok; e, ok = o.next() {
		o.call(e)
	}
	ended = true
}

// next returns the event to pass on now; false, for good, when there is none.
func (o *outlet) next() (e Event, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		close(o.done)
		o.done = nil
		return Event{}, false
	}
	e = o.queue[0]
	if o.dropped > 0 { // they were older than the rest of the queue
		e = Event{
			Kind: EventDropped, Time: e.Time, Lease: Lease{Pool: e.Lease.Pool, NodeID: wholePool}, Dropped: o.dropped,
			Err: fmt.Errorf("lease: %s was too slow for %d events, which were dropped", o.name, o.dropped),
		}
		o.dropped = 0
		return e, true
	}
	o.queue = o.queue[1:]
	return e, true
}

// call passes one event on. It never reports on a report, so two functions that always
// panic do not report each other endlessly.
func (o *outlet) call(e Event) {
	returned := false
	defer func() {
		if returned {
			return
		}
		what := "ended its goroutine"
		if r := recover(); r != nil {
			what = fmt.Sprintf("panicked: %v\n%s", r, debug.Stack())
		}
		if !e.report {
			o.report(Event{
				Kind: EventWarning, Time: e.Time, Lease: Lease{Pool: e.Lease.Pool, NodeID: wholePool}, report: true,
				Err: fmt.Errorf("lease: %s %s", o.name, what),
			})
		}
	}()
	o.fn(e)
	returned = true
}

// drain waits until everything has been passed on, but not for a function that hangs.
func (o *outlet) drain(limit <-chan struct{}) {
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-limit:
	}
}

// outlets are where an agent's events go.
type outlets struct{ log, hook outlet }

// open sets where the events of an agent with this configuration go.
func (o *outlets) open(c Config) {
	o.log = outlet{name: "Config.Logger", fn: func(e Event) { e.log(c.Logger) }, report: o.hook.tell}
	o.hook = outlet{name: "Config.OnEvent", fn: c.OnEvent, report: o.log.tell}
}

func (o *outlets) tell(e Event) {
	o.log.tell(e)
	o.hook.tell(e)
}

// drain waits for both for at most a second: a program may end after it.
func (o *outlets) drain() {
	over := make(chan struct{})
	stop := time.AfterFunc(time.Second, func() { close(over) })
	defer stop.Stop()
	o.log.drain(over)
	o.hook.drain(over)
	o.log.drain(over) // what the hook's end reported
}
