package cluster

import (
	"context"
	"errors"
	"fmt"
)

// Listener receives changes, one at a time and always the newest. It should act on
// State, not on the difference from Previous, since after a restart it may receive a
// State that it has already acted on. A slow listener does not delay others, and skips
// the states that it missed. A listener that returns an error, panics or ends its
// goroutine is fatal: a node whose listener failed no longer does its job in the cluster,
// so it stops taking part (see Node.Done). ctx ends when the node ends: on Close, with
// its lease, or when a listener fails.
type Listener func(ctx context.Context, e Event) error

// errGoexit is the failure of a listener that called runtime.Goexit.
var errGoexit = errors.New("it ended its goroutine (runtime.Goexit)")

// listen runs one listener until the node ends.
func (n *Node) listen(l Listener) {
	for e := range n.Changes(n.ctx) {
		n.call(l, e)
	}
}

// call calls a listener, and ends the node if the listener fails in any way.
func (n *Node) call(l Listener, e Event) {
	err := errGoexit // Goexit returns nothing, and recover does not see it
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil && n.ctx.Err() == nil {
			n.end(fmt.Errorf("%w: %w", ErrListener, err))
		}
	}()
	err = l(n.ctx, e)
}
