package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
)

// releaseBudget is how long Close tries to release the node ID.
const releaseBudget = 3 * time.Second

// Close stops ID making and then releases the node ID, within 3 s. It returns once
// everything that the agent started has ended, and may be called more than once. Finish
// all work that needs IDs before calling Close: generators on the agent make none
// afterwards. An error means that the release was not confirmed; the node ID then stays
// taken until the lease expires.
func (a *Agent) Close() error {
	if a.absent() {
		return errNoAgent
	}
	return a.close()
}

func (a *Agent) shutdown() error {
	// Fence before the release is sent: the last stamped millisecond that the
	// release reports must be the last one ever stamped.
	copied := a.timeline.Copied()
	last := a.timeline.Close()
	copied = copied || a.timeline.Copied() // the snapshot was made just before the fence
	a.mu.Lock()
	a.closing = true
	if copied { // a release would free milliseconds that the original may stamp
		a.loseNow(a.term, a.copied())
	}
	a.mu.Unlock()
	a.stop()
	<-a.stopped // no renewal is sent after the release
	a.background.Wait()
	a.mu.Lock()
	a.watchdog.Stop()
	t, over := a.term, a.over
	a.over = ErrClosed
	a.mu.Unlock()
	var err error
	if over == nil || errors.Is(over, errExpired) {
		err = a.release(t, last)
	}
	a.end(fmt.Errorf("%w: node %d of pool %q was released", ErrClosed, t.Lease.NodeID, a.cfg.Pool))
	a.events.drain()
	a.hangUp()
	return err
}

// release releases the node ID. It uses its own context, since the caller of Close has
// usually canceled its context already.
func (a *Agent) release(t *tenure.Term, last time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseBudget)
	defer cancel()
	return a.releaseBefore(ctx, t, last, false)
}

// releaseBefore is release until ctx ends. If ctx is canceled, no event is emitted, because
// Close releases the node ID again. If told is set, an earlier failure was reported already.
func (a *Agent) releaseBefore(ctx context.Context, t *tenure.Term, last time.Time, told bool) error {
	began := a.clock.Monotonic()
	freed, err := a.giveBack(ctx, t, t.Release(last), func(cur *protocol.Lease) (protocol.Write, bool) { return t.ReleaseAgain(last, cur) })
	e := Event{Kind: EventReleased, Lease: Lease(t.Lease), Took: a.clock.Monotonic() - began}
	if err != nil && (told || errors.Is(ctx.Err(), context.Canceled)) {
		return err
	} else if err != nil {
		err = fmt.Errorf("lease: giving node %d of pool %q back was not confirmed, it rests until %s: %w",
			t.Lease.NodeID, a.cfg.Pool, protocol.Stamp(protocol.Latest(t.Expires().Add(a.cfg.ClaimGuard), t.Reserved())), err)
		e.Kind, e.Reason, e.Err = EventNotReleased, protocol.Reason(err), err
	}
	a.emitNow(e)
	// The offer follows the release, so that it cannot delay the release. A node ID that was
	// exposed because of a copy is not offered, since nobody can claim it until its
	// reservation has passed.
	if _, whole := freed.(protocol.Release); whole {
		a.offer(ctx, t.Lease.NodeID)
	}
	return err
}

// giveUp releases the node ID that was lost at its deadline, before the agent claims another
// one. In a full pool, there may be no other. giveUp returns how long to wait for another node
// ID: without an answer, only until it is called again, while the node ID rests. n counts the
// calls for this node ID, from 0.
func (a *Agent) giveUp(ctx context.Context, lost error, n int) (wait time.Duration) {
	const forever = time.Duration(1<<63 - 1)
	copied := a.timeline.Copied()
	// Invariant (S1): the loss has sealed the timeline, so nothing of this term was stamped after
	// last. If a copy was made before that, the node ID stays reserved, as in Close.
	last := a.timeline.Seal()
	if copied || !errors.Is(lost, errExpired) {
		return forever
	}
	t := a.term
	rests := protocol.Latest(t.Expires().Add(a.cfg.ClaimGuard), t.Reserved()).Sub(a.timeline.Now())
	if n > 0 && rests <= 0 {
		return forever
	}
	// Invariant (liveness): the holder claims another node ID even if the partition of this item
	// does not answer, since the item may rest for hours.
	ctx, cancel := context.WithTimeout(ctx, releaseBudget)
	defer cancel()
	if a.releaseBefore(ctx, t, last, n > 0) != nil {
		return releaseBudget << min(n, 5)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = errGivenUp // so Close does not release it again
	return forever
}

// expose frees the node ID after a copy of this process was detected, because the copy
// must not keep the node ID either; see Term.Expose. This process's lease is over in any
// case, so expose is only a courtesy to the pool. Close waits until expose has returned.
func (a *Agent) expose(ctx context.Context, t *tenure.Term, cur *protocol.Lease) {
	w, ok := t.Expose(cur)
	if !ok {
		return
	}
	if a.napping == nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, releaseBudget)
	defer cancel()
	if _, err := a.giveBack(ctx, t, w, t.Expose); err != nil {
		a.emit(Event{Kind: EventNotReleased, Lease: Lease(t.Lease), Reason: protocol.Reason(err), Err: err})
	}
}

// giveBack sends a release of t until it is answered. It returns the write that took
// effect, or nil if the node ID already belongs to someone else. The store may refuse a
// release for three reasons. If an earlier attempt succeeded, or the node ID already
// belongs to someone else, giveBack returns no error. If the item has a renewal that the
// release did not take into account, the function again returns the release to send next.
func (a *Agent) giveBack(ctx context.Context, t *tenure.Term, w protocol.Write, again func(*protocol.Lease) (protocol.Write, bool)) (done protocol.Write, err error) {
	for {
		res, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Result, error) {
			one, cancel := context.WithTimeout(ctx, renewLimit)
			defer cancel()
			return a.cfg.Store.Write(one, w)
		})
		if err != nil {
			return nil, err
		}
		// If the node ID is free and nobody has claimed it since, an earlier attempt succeeded.
		if l := res.Lease; res.Applied || l != nil && l.Holder == "" && l.Version == t.Lease.Version {
			return w, nil
		}
		next, ok := again(res.Lease)
		if !ok {
			return nil, nil
		}
		if next == w {
			return nil, fmt.Errorf("lease: node %d of pool %q refuses its release: %+v", w.Item().NodeID, w.Item().Pool, res.Lease)
		}
		w = next
	}
}
