package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// releaseBudget is how long Close tries to give the number back.
const releaseBudget = 3 * time.Second

// Close stops ID making first and then gives the number back, within 3 s; it
// returns when all has ended, and may be called again. Drain before, since
// nothing works after. The error says that giving back was not confirmed: the
// number then rests until it expires.
func (a *Agent) Close() error { return a.close() }

func (a *Agent) shutdown() error {
	// Fence before the release is sent: what the store learns as the last
	// millisecond stamped must be the last one ever.
	last := a.timeline.Close()
	a.mu.Lock()
	a.closing = true
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
	a.end(fmt.Errorf("%w: node %d of pool %q was given back", ErrClosed, t.lease.NodeID, a.cfg.Pool))
	a.hook.drain(time.Second)
	return err
}

// release gives the number back; its context is its own, since whoever calls
// Close has usually canceled theirs.
func (a *Agent) release(t *term, last time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseBudget)
	defer cancel()
	began := a.clock.Monotonic()
	w := t.release(last)
	_, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.Result, error) {
		one, cancel := context.WithTimeout(ctx, renewLimit)
		defer cancel()
		return a.cfg.Store.Write(one, w)
	})
	e := a.asOfNow(Event{Kind: EventReleased, Lease: t.lease, Took: a.clock.Monotonic() - began})
	if err != nil {
		err = fmt.Errorf("lease: giving node %d of pool %q back was not confirmed, it rests until %s: %w",
			t.lease.NodeID, a.cfg.Pool, protocol.Stamp(t.askedExpires.Add(a.cfg.ClaimGuard)), err)
		e.Kind, e.Reason, e.Err = EventNotReleased, protocol.Reason(err), err
	}
	// Refused means that an earlier attempt landed, or that it is someone else's
	// already: both are what was wanted.
	a.emit(e)
	return err
}
