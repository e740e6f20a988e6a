package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tellKnown publishes what this node knows, if that has changed.
func (n *Node) tellKnown(ctx context.Context, s State) {
	if !n.cfg.PublishKnown {
		return
	}
	known := s.versions()
	if maps.Equal(n.published, known) {
		return
	}
	if err := n.cfg.Coordinator.Publish(ctx, n.Self(), known); err != nil {
		n.cfg.Logger.Warn("cluster known versions not published", "cluster", n.cfg.Cluster, "node_id", n.cfg.NodeID, "error", err)
		return // the next heartbeat tries again
	}
	n.published = known
}

// WaitKnown returns nil when every live member has published that it knows this
// node's version: none of them takes its predecessor, which may have ended
// uncleanly, for alive. Call it before the node says that it is ready. Members
// must have PublishKnown set; the error names those that did not know in time.
func (n *Node) WaitKnown(ctx context.Context) error {
	for {
		v, next := n.view()
		missing, err := n.unaware(ctx, v)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("version %d is not known to %s", v.self.Version, strings.Join(missing, ", "))
		}
		select {
		case <-next:
		case <-n.done:
			return n.Err()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("cluster: %w", err), context.Cause(ctx))
		}
	}
}

// unaware names the live members that do not know this node's version.
func (n *Node) unaware(ctx context.Context, v view) (names []string, err error) {
	known, err := n.cfg.Coordinator.Known(ctx, n.cfg.Cluster)
	if err != nil {
		return nil, err
	}
	for _, m := range v.state.members {
		if !m.Same(v.self) && known[m.Key()][v.self.Key()] < v.self.Version {
			names = append(names, m.NodeID)
		}
	}
	slices.Sort(names)
	return names, nil
}
