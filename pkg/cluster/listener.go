package cluster

import (
	"context"
	"fmt"
)

// Listener is told of changes, one at a time and always the newest: a level, not
// an edge, so it acts on State and may be told the same twice after a restart. A
// slow one delays nobody and skips what it missed. One that returns an error, or
// panics, is fatal: a node whose listener failed no longer does what its members
// believe it does, so it stops taking part (see Node.Done). ctx ends with the node.
type Listener func(ctx context.Context, e Event) error

// listen runs one listener until the node ends.
func (n *Node) listen(ctx context.Context, l Listener) {
	for e := range n.Changes(ctx) {
		if err := call(ctx, l, e); err != nil && ctx.Err() == nil {
			n.end(fmt.Errorf("%w: %w", ErrListener, err))
		}
	}
}

// call turns a panic into an error.
func call(ctx context.Context, l Listener, e Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return l(ctx, e)
}
