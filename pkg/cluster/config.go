package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Config says which cluster, and who takes part.
type Config struct {
	// Cluster is the namespace, 1 to 64 printable characters. Defaults to the
	// agent's pool.
	Cluster string
	// NodeID is the stable name of this node, which no other node has: 1 to 128
	// bytes. With an agent it is part of the lease's metadata.
	NodeID string
	// Coordinator is the backend.
	Coordinator Coordinator
	// Agent, if given, heartbeats with its renewals. The node must be closed, or
	// have ended, before another one takes part with the same agent.
	Agent *lease.Agent

	// Timeout is how long after its last heartbeat a session counts as alive, and
	// after how long a silence of its own the node takes a new session. All nodes
	// of a cluster have the same. Defaults to the length of the agent's lease, and
	// is not below it; without an agent, to 15 s.
	Timeout time.Duration
	// Every is the time between heartbeats, at most half of Timeout; each waits
	// 10 % more or less at random. Defaults to Timeout / 3. Not used with an
	// agent, whose renewals count.
	Every time.Duration

	// Metadata is what the node says of itself. With an agent, give it to that.
	Metadata map[string]string
	// Elect chooses the leader that Node.Leader tells. Defaults to LowestSession.
	Elect Elector
	// PublishKnown publishes which versions this node knows, each time they
	// change: what other nodes' WaitKnown waits for. In a large cluster that costs
	// more than anything else; see docs/cluster.md.
	PublishKnown bool
	// Listeners are told of changes, each by a goroutine of its own.
	Listeners []Listener
	// Logger gets warnings. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Agent != nil {
		l, err := c.Agent.Lease()
		if err != nil {
			return c, fmt.Errorf("%w: %w", ErrLease, err)
		}
		if c.Cluster == "" {
			c.Cluster = l.Pool
		}
		if c.Timeout == 0 {
			c.Timeout = l.TTL
		}
		if c.Timeout < l.TTL {
			bad("Timeout %v is below the lease's length %v, in which two renewals come", c.Timeout, l.TTL)
		}
	}
	if c.Timeout == 0 {
		c.Timeout = lease.DefaultTTL
	}
	if c.Every == 0 {
		c.Every = c.Timeout / 3
	}
	if c.Elect == nil {
		c.Elect = LowestSession
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Cluster == "" || len(c.Cluster) > 64:
		bad("Cluster %q: give 1 to 64 characters", c.Cluster)
	case c.NodeID == "" || len(c.NodeID) > 128:
		bad("NodeID %q: give a name of 1 to 128 bytes that stays over restarts", c.NodeID)
	}
	if c.Coordinator == nil {
		bad("Coordinator is missing: NewTable, NewMemory or pgcoordinator.New make one")
	}
	if c.Timeout < 0 || c.Every < 0 || c.Every > c.Timeout/2 {
		bad("Every %v is not within half of Timeout %v: one lost heartbeat would end a membership", c.Every, c.Timeout)
	}
	if c.Agent != nil && len(c.Metadata) > 0 {
		bad("Metadata is the agent's where there is one: give it to lease.Config")
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("cluster: Config: %w", errors.Join(errs...))
	}
	return c, nil
}
