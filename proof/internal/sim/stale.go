package sim

import (
	"bytes"
	"time"
)

// Eventually consistent reads return the table as it was up to staleFor ago. DynamoDB
// promises no bound, but is usually consistent within a second.
const (
	staleFor  = 3 * time.Second
	mostStale = 1000 // how many answers are kept
)

// shown is the answer to a read, and the time of the answer.
type shown struct {
	at     time.Time
	answer *answer
}

// read handles a call as do does, but for a third of the eventually consistent reads it
// returns an earlier answer to the same read. It returns nil if the call is not done now.
func (n *network) read(c *call) *answer {
	if a, ok := n.card(c); ok {
		return a
	}
	if !n.Plan.has("stale") || !bytes.Contains(c.body, []byte(`"ConsistentRead":false`)) {
		return n.do(c)
	}
	n.mu.Lock()
	before, known := n.pages[string(c.body)]
	old := known && time.Since(before.at) < staleFor && n.stale.IntN(3) == 0
	n.mu.Unlock()
	if old {
		n.count(func(c *Counts) { c.Stale++ })
		return before.answer
	}
	a := n.do(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pages) >= mostStale {
		clear(n.pages)
	}
	// A later answer does not replace an answer that is recent enough to be returned again,
	// so that the time of the stored answer stays the same.
	if !known || time.Since(before.at) >= staleFor {
		n.pages[string(c.body)] = shown{time.Now(), a}
	}
	return a
}
