package lease

import (
	"sync"
	"time"
)

// hook calls OnEvent in order, from one goroutine that lives only while there
// is something to tell: a slow callback delays no renewal.
type hook struct {
	fn    func(Event)
	mu    sync.Mutex
	queue []Event
	done  chan struct{} // closed when the goroutine ends; nil when there is none
}

func (h *hook) tell(e Event) {
	if h.fn == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, e)
	if h.done == nil {
		h.done = make(chan struct{})
		go h.run()
	}
}

func (h *hook) run() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			close(h.done)
			h.done = nil
			h.mu.Unlock()
			return
		}
		e := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		h.fn(e)
	}
}

// drain waits until all is told, but not for a callback that hangs.
func (h *hook) drain(limit time.Duration) {
	h.mu.Lock()
	done := h.done
	h.mu.Unlock()
	if done == nil {
		return
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
