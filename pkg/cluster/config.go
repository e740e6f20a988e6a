package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Config configures a node: its cluster, its name and its backend.
type Config struct {
	// Cluster is the namespace, 1 to 64 of A-Z a-z 0-9 . _ -. Defaults to the agent's
	// pool; on the lease table with an agent, no other value is allowed.
	Cluster string
	// Name is the stable, unique name of this node: 1 to 128 printable bytes. With an
	// agent it is part of the lease's metadata.
	Name string
	// Coordinator is the backend.
	Coordinator Coordinator
	// Agent, if given, sends the heartbeats with its renewals. The node must be closed, or
	// have ended, before another node takes part with the same agent.
	Agent *lease.Agent

	// Timeout is how long after its last heartbeat a session counts as alive. The clocks
	// of other nodes may be ahead, so this node takes a new session once it has been
	// silent for Timeout minus the lease's Guard (without a lease, for nine tenths of
	// Timeout). All nodes of a cluster must have the same Timeout. With an agent, Timeout
	// must be at least the length of the agent's lease, which is the default. Without an
	// agent, it must be at least 100 ms, and defaults to 15 s.
	Timeout time.Duration
	// Every is the time between heartbeats, at most half of Timeout. Each pause is up to
	// 10 % longer or shorter, at random. Defaults to Timeout / 3. Not used with an agent,
	// whose renewals are the heartbeats.
	Every time.Duration

	// Metadata describes the node to other nodes. It has up to 512 bytes. With an agent,
	// set lease.Config.Metadata instead. Node.SetMetadata changes it.
	Metadata map[string]string
	// Elect chooses the leader that Node.Leader returns. Defaults to LowestSession.
	Elect Elector
	// PublishKnown makes this node publish the versions that it knows, each time they
	// change. WaitKnown on other nodes waits for these publications. In a large cluster,
	// they are the largest cost. Beyond 1,024 members nothing is published; see
	// docs/cluster.md.
	PublishKnown bool
	// Listeners are called on changes, each by its own goroutine.
	Listeners []Listener
	// Logger receives warnings. Defaults to slog.Default().
	Logger *slog.Logger
}

// minTimeout is the shortest Timeout.
const minTimeout = 100 * time.Millisecond

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
		// Other processes find the members that hold leases by reading the leases of the
		// pool with the cluster's name.
		if _, pools := c.Coordinator.(interface{ ClustersArePools() }); pools && c.Cluster != l.Pool {
			bad("Cluster %.80q with an agent of the pool %q: on the lease table no other node would see this one; leave Cluster empty, or use an agent of that pool", c.Cluster, l.Pool)
		}
		// Even if the lease has grown, its length is TTL from the next renewal on,
		// because Start keeps the lease short.
		ttl := c.Agent.TTL()
		if c.Timeout == 0 {
			c.Timeout = ttl
		}
		if c.Timeout < ttl {
			bad("Timeout %v is below the lease's length %v, which covers two renewals", c.Timeout, ttl)
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
	if err := protocol.CheckPoolName(c.Cluster); err != nil { // partitions of other pools begin with a name and a #
		bad("Cluster %.80q: use 1 to 64 of A-Z a-z 0-9 . _ -", c.Cluster)
	}
	if err := (Member{Name: c.Name, SessionID: "-", NodeID: NoNodeID, Metadata: c.Metadata}).Validate(); err != nil {
		bad("Name and Metadata: %w", err)
	}
	if protocol.IsNil(c.Coordinator) {
		bad("Coordinator is missing: create one with dynamocoordinator.New or pgcoordinator.New")
	}
	for i, l := range c.Listeners {
		if l == nil {
			bad("Listeners: the one at %d of %d is nil", i, len(c.Listeners))
		}
	}
	// A heartbeat has a third of the time-out for its answer.
	if c.Timeout < minTimeout {
		bad("Timeout %v is below %v, so heartbeats would not be answered in time: set a longer one, or leave it unset for %v", c.Timeout, minTimeout, lease.DefaultTTL)
	} else if c.Every < 0 || c.Every > c.Timeout/2 {
		bad("Every %v is more than half of Timeout %v: one lost heartbeat would end a membership", c.Every, c.Timeout)
	}
	if c.Agent != nil && len(c.Metadata) > 0 {
		bad("with an Agent, Metadata is the agent's: set it in lease.Config")
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("cluster: Config: %w", errors.Join(errs...))
	}
	return c, nil
}
