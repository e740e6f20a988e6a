package sim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
)

// memory is how many requests the network remembers, for replays.
const memory = 2000

// remember keeps a write, in the place of a random earlier one when there are many.
func (n *network) remember(r *http.Request, body []byte) {
	if !n.Plan.has("replay") || r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.UpdateItem" {
		return
	}
	again := r.Clone(context.WithoutCancel(r.Context()))
	again.Body = io.NopCloser(bytes.NewReader(body))
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.sent) < memory {
		n.sent = append(n.sent, again)
		return
	}
	n.sent[n.r.IntN(memory)] = again
}

// replays sends writes again that were sent at any time before.
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
		var again *http.Request
		if len(n.sent) > 0 {
			again = n.sent[n.r.IntN(len(n.sent))]
		}
		n.mu.Unlock()
		if again == nil {
			continue
		}
		w.count(func(c *Counts) { c.Replays++ })
		body, err := io.ReadAll(again.Body)
		again.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil {
			w.note(history.Event{Kind: history.Note, Text: "replayed: " + string(body)})
			_ = n.do(again, body)
		}
	}
}
