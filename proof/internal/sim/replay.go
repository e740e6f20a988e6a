package sim

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
)

// memory is how many requests the network remembers, for replays.
const memory = 2000

// remember keeps a write for replays. Once there are many, it replaces a random earlier write.
func (n *network) remember(c *call) {
	if !n.Plan.has("replay") || !c.writes() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.sent) < memory {
		n.sent = append(n.sent, c)
		return
	}
	n.sent[n.r.IntN(memory)] = c
}

// replays sends earlier writes again, until ctx ends.
func (w *World) replays(ctx context.Context) {
	n := w.network
	for {
		n.mu.Lock()
		wait := time.Duration(n.r.Int64N(int64(10 * time.Second)))
		n.mu.Unlock()
		if sleep(ctx, wait) != nil {
			return
		}
		n.mu.Lock()
		var again *call
		if len(n.sent) > 0 {
			again = n.sent[n.r.IntN(len(n.sent))]
		}
		n.mu.Unlock()
		if again == nil {
			continue
		}
		w.count(func(c *Counts) { c.Replays++ })
		w.note(history.Event{Kind: history.Note, Text: "replayed: " + string(again.body)})
		_ = n.do(again)
	}
}
