package sidecar

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// queue lets one request at a time draw IDs, in the order of their arrival. Requests
// that drew side by side would all get a part of their IDs and time out with it, and
// the IDs that they drew would be lost: under overload no client would be served.
type queue struct {
	mu      sync.Mutex
	waiting []*turn // the first one draws
	owed    int     // IDs that those in waiting ask for
	rate    float64 // IDs a second, as draws have it
	least   float64 // that it is taken for
}

// turn is one request's place in the queue.
type turn struct {
	n   int
	now chan struct{} // closed when it is the first
}

// newQueue expects as many IDs a second as the layout has. A narrow pool has more, and
// a machine that is short of CPU makes fewer; draws correct the estimate.
func newQueue(l snowflake.Layout) *queue {
	rate := float64(uint64(1)<<l.SequenceBits) * float64(time.Second) / float64(l.Tick)
	return &queue{rate: rate, least: rate / 4}
}

// admitted is how long a request may have to wait by the estimate. It is below patience,
// since one that is admitted and times out fails late instead of at once.
const admitted = patience * 4 / 5

// enter queues for n IDs. Where they could not be drawn in time, it refuses
// at once, and returns after how long another try has a chance.
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

// takes is how long n IDs take.
func (q *queue) takes(n int) time.Duration {
	return time.Duration(float64(n) / q.rate * float64(time.Second))
}

// leave hands the turn to the next one.
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

// drew corrects the rate by a draw that others waited for: without others, a draw may take
// the rest of the last ticks, or hardly any time. The estimate has a lower bound,
// so that a machine that was frozen for a while does not refuse everything from then on.
func (q *queue) drew(n int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 1 && took > 0 {
		q.rate = max(q.rate+(float64(n)/took.Seconds()-q.rate)/8, q.least)
	}
}

// draw fills ids when it is this request's turn. The time until then is bounded by
// patience, and the draw itself once more: a request that has begun to draw gets its
// IDs, unless the machine makes far fewer than the layout has.
func (q *queue) draw(ctx context.Context, ids []snowflake.ID, next func(context.Context, []snowflake.ID) (int, error)) (retry time.Duration, err error) {
	t, retry := q.enter(len(ids))
	if t == nil {
		return retry, context.DeadlineExceeded
	}
	defer q.leave(t)
	if err := t.wait(ctx); err != nil {
		return time.Second, err // it has drawn nothing
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	// All or none: IDs drawn by a failed call are lost, and will never be made again.
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
		return context.Cause(ctx) // not for a client that has gone meanwhile
	case <-limit.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
