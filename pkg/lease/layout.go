package lease

import (
	"context"
	"fmt"
	"sync"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// poolLayout is the layout of the pool's IDs, once this agent has relied on it.
type poolLayout struct {
	mu    sync.Mutex
	known *snowflake.Layout
}

// decideLayout returns the layout of the pool's IDs for a generator on this agent.
// Where the pool has none, the first agent that makes IDs binds the one asked for;
// asking for another than the pool's is an error that names both.
//
// It reads the pool's item again after the claim: an operator may correct the layout
// until a node ID has been claimed, and removes the layout before looking for claims.
// So a claimant that reads after its claim is either found or finds no layout.
func (a *Agent) decideLayout(want *snowflake.Layout) (snowflake.Layout, error) {
	a.layout.mu.Lock()
	defer a.layout.mu.Unlock()
	if known := a.layout.known; known != nil && (want == nil || protocol.LayoutOf(*want) == protocol.LayoutOf(*known)) {
		return *known, nil
	}
	ctx, cancel := context.WithTimeoutCause(a.life, startLimit, fmt.Errorf("no answer from the store within %v", startLimit))
	defer cancel()
	item, err := a.readPool(ctx)
	if err == nil {
		item, err = leasepool.BindLayout(ctx, a.cfg.Store, item, want)
	}
	if err != nil {
		return snowflake.Layout{}, err
	}
	l := item.Layout.Snowflake()
	a.layout.known = &l
	return l, nil
}
