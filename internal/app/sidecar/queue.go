package sidecar

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// queue lets one request at a time draw IDs, in the order of arrival. If requests drew
// concurrently, each would get only some of its IDs before it timed out, and these IDs
// would be lost: under overload no client would be served.
type queue struct {
	mu      sync.Mutex
	waiting []*turn // the first one draws
	owed    int     // IDs that the waiting requests ask for
	rate    float64 // estimated IDs per second
	least   float64 // lower bound of rate
}

// turn is one request's place in the queue.
type turn struct {
	n   int
	now chan struct{} // closed when this turn is the first
}

// newQueue returns a queue whose first estimate is the layout's rate of IDs. A narrow pool
// allows more IDs a second, and a machine that is short of CPU makes fewer; draws correct
// the estimate.
func newQueue(l snowflake.Layout) *queue {
	rate := float64(uint64(1)<<l.SequenceBits) * float64(time.Second) / float64(l.Tick)
	return &queue{rate: rate, least: rate / 4}
}

// admitted is the longest estimated time for which a request is admitted. It is below
// patience, because a request that is admitted and then times out fails late instead of at
// once.
const admitted = patience * 4 / 5

// enter adds a turn for n IDs to the queue. If the IDs could not be drawn in time, it returns
// nil at once, and the time after which another attempt has a chance.
func (q *queue) enter(n int) (t *turn, retry time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if takes := q.takes(q.owed + n); takes > admitted {
		return nil, max(takes-admitted, time.Second)
	}
	t = &turn{n, make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.owed += n
	if len(q.waiting) == 1 {
		close(t.now)
	}
	return t, 0
}

// takes returns how long drawing n IDs takes, according to the estimate.
func (q *queue) takes(n int) time.Duration {
	return time.Duration(float64(n) / q.rate * float64(time.Second))
}

// leave removes a turn from the queue, and starts the next one if this was the first.
func (q *queue) leave(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.owed -= t.n
	if i == 0 && len(q.waiting) > 0 {
		close(q.waiting[0].now)
	}
}

// drew corrects the estimated rate after a draw, if other requests were waiting. If none
// were, the draw shows little about the rate, because it may have used unused IDs of the
// last ticks and taken hardly any time. The rate has a lower bound, so that the queue does
// not refuse everything after the machine was frozen for a while.
func (q *queue) drew(n int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 1 && took > 0 {
		q.rate = max(q.rate+(float64(n)/took.Seconds()-q.rate)/8, q.least)
	}
}

// draw fills ids when it is this request's turn. The wait is bounded by patience, and so is
// the draw after it. So a request that has begun to draw gets its IDs, unless the machine
// makes far fewer IDs than the layout allows.
func (q *queue) draw(ctx context.Context, ids []snowflake.ID, next func(context.Context, []snowflake.ID) (int, error)) (retry time.Duration, err error) {
	t, retry := q.enter(len(ids))
	if t == nil {
		return retry, context.DeadlineExceeded
	}
	defer q.leave(t)
	if err := t.wait(ctx); err != nil {
		return time.Second, err // nothing was drawn
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	// A request gets all of its IDs or none. IDs drawn by a failed call are lost, and will
	// never be made again.
	if _, err := next(ctx, ids); err != nil {
		return time.Second, err
	}
	q.drew(len(ids), time.Since(began))
	return 0, nil
}

// wait waits until it is this request's turn.
func (t *turn) wait(ctx context.Context) error {
	select {
	case <-t.now:
		return nil
	default:
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-t.now:
		return context.Cause(ctx) // an error if the client has left in the meantime
	case <-limit.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
