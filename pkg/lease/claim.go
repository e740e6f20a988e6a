package lease

import (
	"context"
	"errors"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// claim tries one node ID until its holder is certain: it returns nil and no error if
// someone else holds it. An attempt without an answer may have landed, or land later,
// so the same session asks again instead of leaking the node ID.
func (a *Agent) claim(ctx context.Context, node int, session string) (*term, error) {
	a.uncap(ctx, a.clock.Wall())
	first := a.clock.Monotonic()
	doubt := false
	for n := 0; ; n++ {
		t, err := a.tryClaim(ctx, node, session, first)
		switch {
		case t != nil && t.held(a.clock.Monotonic()):
			return t, nil
		case t != nil: // the answer took longer than the lease: nothing was stamped, start afresh
			a.abandon(ctx, node, session)
			return nil, nil
		case err == nil:
			return nil, nil
		}
		doubt = doubt || !permanent(err)
		if !permanent(err) {
			cause := protocol.Pause(ctx, protocol.Backoff(n))
			if cause == nil {
				continue
			}
			err = errors.Join(err, cause)
		}
		if doubt {
			a.abandon(ctx, node, session)
		}
		return nil, err
	}
}

// tryClaim makes one attempt for a session whose first attempt was sent at first. It
// returns the new term, or nil and no error when the node ID is someone else's or
// corrupt.
func (a *Agent) tryClaim(ctx context.Context, node int, session string, first time.Duration) (*term, error) {
	m0 := a.clock.Monotonic()
	w := a.claimOf(node, session)
	// An answer is of no use when the lease that it confirms is over.
	one, cancel := context.WithTimeout(ctx, min(protocol.CallLimit, (a.cfg.TTL-a.cfg.Guard)/2))
	res, err := a.cfg.Store.Write(one, w)
	cancel()
	e := Event{Lease: a.about(node), Took: a.clock.Monotonic() - m0, Err: err}
	if err != nil {
		e.Kind, e.Reason = EventUnanswered, protocol.Reason(err)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			if corrupt.Written { // keep the reservation, whatever it means
				a.abandon(ctx, node, session)
			}
			e.Kind, e.Reason, err = EventCorrupt, "", nil
		}
		a.emit(e)
		return nil, err
	}
	t := a.cfg.claimed(w, res, m0, first)
	if t == nil {
		e.Kind = EventTaken
		if res.Lease != nil {
			e.Lease = *res.Lease
			a.stale = a.stale || res.Lease.WidenTry > w.WidenTry
		}
		a.emit(e)
	}
	return t, nil
}

// claimOf returns a claim by this agent, as of now.
func (a *Agent) claimOf(node int, session string) protocol.Claim {
	w0 := a.clock.Wall()
	return protocol.Claim{
		Key: protocol.Key{Pool: a.cfg.Pool, NodeID: node}, Session: session, Task: a.cfg.Task, Metadata: a.metadataNow(),
		At: w0, ClaimGuard: a.cfg.ClaimGuard, TTL: a.cfg.TTL, ExpiresAt: w0.Add(a.cfg.TTL), ReservedUntil: a.pool.Capped(w0.Add(a.cfg.Reserve)), WidenTry: a.pool.Widening.Try,
	}
}

// abandon releases a node ID whose claim may have landed without an answer. It is a
// courtesy, tried once: the claim would expire by itself.
func (a *Agent) abandon(ctx context.Context, node int, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit)
	defer cancel()
	_, err := a.cfg.Store.Write(ctx, protocol.Abandon{Key: protocol.Key{Pool: a.cfg.Pool, NodeID: node}, Session: session})
	if err != nil {
		a.emit(Event{Kind: EventNotReleased, Lease: a.about(node), Reason: protocol.Reason(err), Err: err})
	}
}
