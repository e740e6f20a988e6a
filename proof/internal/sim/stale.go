package sim

import (
	"bytes"
	"time"
)

// Eventually consistent reads show what was true up to staleFor ago. DynamoDB names no
// bound, and is usually there within a second.
const (
	staleFor  = 3 * time.Second
	mostStale = 1000 // reads that are remembered
)

// shown is the result of a read, and its time.
type shown struct {
	at     time.Time
	answer *answer
}

// read is do for a read that may be old: one in three repeats what the same read showed
// before. It returns nil if the call is not done, or not yet.
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
	// A page that is shown again keeps its age: the page of a later read does not replace
	// one that can still be shown.
	if !known || time.Since(before.at) >= staleFor {
		n.pages[string(c.body)] = shown{time.Now(), a}
	}
	return a
}
