// Package dynamocoordinator keeps a cluster's heartbeats in the lease table.
//
// If a member has a lease, the item of the lease records the member. The renewal is the
// heartbeat, so Heartbeat only reads. A member without a lease has an item of its own.
//
// The member with the oldest session reads all items and writes a digest of them. The other
// members read the digest. If the digest is older than the time-out, they read all items
// themselves.
package dynamocoordinator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Coordinator is a [cluster.Coordinator] on the table of the leases. It is safe for
// concurrent use.
type Coordinator struct {
	client lease.Client
	table  string
	store  lease.Store

	mu      sync.Mutex
	digests map[string]*digest         // by the cluster and the key of the reading member
	ahead   map[string]map[int64]ahead // by the cluster and the sort key
}

var _ cluster.Coordinator = (*Coordinator)(nil)

// New returns the backend on a lease table. A cluster has the name of a pool, and its
// members with leases are the holders of the pool's leases.
func New(client lease.Client, table string) *Coordinator {
	return &Coordinator{client: client, table: table, store: lease.NewDynamoDB(client, table), digests: map[string]*digest{}, ahead: map[string]map[int64]ahead{}}
}

// ClustersArePools marks the coordinator for [cluster.Start]: with an agent, a cluster's name
// must be the name of the agent's pool, because other members look for this member in
// that pool.
func (*Coordinator) ClustersArePools() {}

// Heartbeat implements [cluster.Coordinator]. If the digest cannot be written, the
// heartbeat still succeeds, with a Warning.
func (c *Coordinator) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	if c.digests == nil {
		return cluster.Snapshot{}, errors.New("dynamocoordinator: a zero Coordinator: dynamocoordinator.New returns one")
	}
	if b.Self.NodeID == cluster.NoNodeID {
		if err := c.beat(ctx, b); err != nil {
			return cluster.Snapshot{}, err
		}
	}
	d := c.digestOf(b.Self)
	if !b.Oldest {
		snap, ok, err := d.read(ctx, b)
		if ok || err != nil {
			return snap, err
		}
	}
	now := time.Now()
	members, err := c.all(ctx, b.Self.Cluster, now, b.Timeout)
	if err != nil || !b.Oldest {
		if err == nil {
			d.seed(members)
		}
		return cluster.Snapshot{Members: members}, err
	}
	return cluster.Snapshot{Members: members, Warning: d.write(ctx, b, members, now)}, nil
}

// digestOf returns the digest as a member has last read it. A process has few members, so
// their digests are never removed.
func (c *Coordinator) digestOf(m cluster.Member) *digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := m.Cluster + "#" + m.Key()
	if c.digests[key] == nil {
		c.digests[key] = &digest{Coordinator: c, partition: m.Cluster + "#digest", copies: 1}
	}
	return c.digests[key]
}

// all reads every member with strongly consistent reads.
func (c *Coordinator) all(ctx context.Context, clusterName string, now time.Time, timeout time.Duration) ([]cluster.Member, error) {
	members, err := c.nodes(ctx, clusterName, now, timeout)
	if err != nil {
		return nil, err
	}
	pool, err := c.store.PoolItem(ctx, clusterName)
	if errors.Is(err, lease.ErrPoolNotSeeded) {
		return members, nil // the cluster has no leases
	}
	if err != nil {
		return nil, err
	}
	// Node IDs are leased in the open groups only.
	groups, err := c.groups(ctx, clusterName, max(pool.OpenGroups, pool.ExcludeBelow/protocol.GroupSize+1), now.Add(-timeout))
	if err != nil {
		return nil, err
	}
	return slices.Concat(append(groups, members)...), nil
}

// readers is how many groups a heartbeat reads concurrently. There are up to 256 groups,
// which a heartbeat has to read in a third of the time-out.
const readers = 8

// groups reads the members with leases, by group.
func (c *Coordinator) groups(ctx context.Context, clusterName string, open int, oldest time.Time) ([][]cluster.Member, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([][]cluster.Member, open)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(readers, open) {
		wg.Go(func() {
			for group := int(next.Add(1)) - 1; group < open && ctx.Err() == nil; group = int(next.Add(1)) - 1 {
				g, err := c.store.Group(ctx, clusterName, group)
				if err != nil {
					cancel(err) // only the first error is kept
					return
				}
				for _, l := range g.Leases {
					if m, ok := cluster.MemberOf(lease.Lease(l)); ok && !m.Heartbeat.Before(oldest) {
						all[group] = append(all[group], m)
					}
				}
			}
		})
	}
	wg.Wait()
	// If one group cannot be read, the heartbeat must fail, since that group's members
	// would seem dead.
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return all, nil
}

// member reads one member's own item with a strongly consistent read.
func (c *Coordinator) member(ctx context.Context, m cluster.Member) (cluster.Member, bool, error) {
	if m.NodeID == cluster.NoNodeID {
		item, err := c.get(ctx, m.Cluster+"#node", sortKey(m), true)
		if err != nil {
			return cluster.Member{}, false, err
		}
		now, ok := nodeOf(m.Cluster, item)
		return now, ok, nil
	}
	l, err := c.store.Get(ctx, m.Cluster, m.NodeID)
	if err != nil || l == nil {
		return cluster.Member{}, false, err
	}
	now, ok := cluster.MemberOf(lease.Lease(*l))
	return now, ok, nil
}
