package leasepool

import (
	"context"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// A sweep first writes up to writesAtOnce node IDs without a pause, and then
// writesPerSecond. That rate is the limit of one partition of a table, since all groups
// may be in the same partition. A new table has four partitions. At this rate, 65,536
// node IDs take 66 seconds.
const (
	writesPerSecond = 1000
	writesAtOnce    = 1000
)

// pace limits the writes of a sweep to a rate that a table accepts.
type pace struct {
	mu   sync.Mutex
	paid time.Time // when the writes so far would have ended at a rate of writesPerSecond
}

// wait waits until one write may be sent.
func (p *pace) wait(ctx context.Context) error {
	const each = time.Second / writesPerSecond
	p.mu.Lock()
	now := time.Now()
	p.paid = protocol.Latest(p.paid, now).Add(each)
	left := p.paid.Sub(now) - writesAtOnce*each
	p.mu.Unlock()
	if left <= 0 {
		return nil
	}
	return protocol.Pause(ctx, left)
}
