package clustertest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/cluster"
)

// Memory is an in-memory [cluster.Coordinator], for tests of programs that use a
// cluster.
type Memory struct {
	mu    sync.Mutex
	alive map[string]map[string]cluster.Member // by cluster and cluster.Member.Key
	known map[string]map[string]publication
}

// publication is a member's last publication.
type publication struct {
	version, revision int64
	known             cluster.Versions
}

var _ cluster.Coordinator = (*Memory)(nil)

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{alive: map[string]map[string]cluster.Member{}, known: map[string]map[string]publication{}}
}

// usable returns an error if c is nil or zero, or if ctx is nil or has ended.
func (c *Memory) usable(ctx context.Context) error {
	if c == nil || c.alive == nil {
		return errors.New("clustertest: this Memory is nil or zero: NewMemory returns one")
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// Heartbeat implements [cluster.Coordinator].
func (c *Memory) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	if err := c.usable(ctx); err != nil {
		return cluster.Snapshot{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := b.Self
	m.Metadata = maps.Clone(m.Metadata)
	all := c.alive[m.Cluster]
	if all == nil {
		all = map[string]cluster.Member{}
		c.alive[m.Cluster] = all
	}
	m.Heartbeat = time.Now()
	before := all[m.Key()]
	late := m.Heartbeat.Add(-max(b.Timeout, cluster.MaxClockBack)) // no heartbeat is late by more
	older := m.NodeID != cluster.NoNodeID && m.Version < before.Version && !before.Heartbeat.Before(late)
	if before.Same(m) && before.Heartbeat.Before(m.Heartbeat.Add(-b.Timeout)) || older {
		return cluster.Snapshot{}, cluster.ErrDropped
	}
	if m.NodeID == cluster.NoNodeID {
		if m.Version = before.Version; before.SessionID != m.SessionID {
			m.Version++
		}
	}
	all[m.Key()] = m
	oldest := m.Heartbeat.Add(-b.Timeout)
	members := make([]cluster.Member, 0, len(all))
	for _, o := range all {
		if !o.Heartbeat.Before(oldest) {
			members = append(members, o)
		}
	}
	return cluster.Snapshot{Members: members}, nil
}

// Expire implements [cluster.Coordinator].
func (c *Memory) Expire(ctx context.Context, clusterName string, age time.Duration) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := time.Now().Add(-age)
	maps.DeleteFunc(c.alive[clusterName], func(key string, m cluster.Member) bool {
		expired := m.Heartbeat.Before(oldest)
		if expired {
			delete(c.known[clusterName], key)
		}
		return expired
	})
	return nil
}

// Publish implements [cluster.Coordinator].
func (c *Memory) Publish(ctx context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[m.Cluster] == nil {
		c.known[m.Cluster] = map[string]publication{}
	}
	now, ok := c.known[m.Cluster][m.Key()]
	earlier := now.version > m.Version && c.alive[m.Cluster][m.Key()].Version == m.Version // it belongs to an earlier pool
	if !ok || earlier || now.version < m.Version || now.version == m.Version && now.revision < revision {
		c.known[m.Cluster][m.Key()] = publication{m.Version, revision, maps.Clone(known)}
	}
	return nil
}

// Known implements [cluster.Coordinator].
func (c *Memory) Known(ctx context.Context, clusterName string) (map[string]cluster.Versions, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]cluster.Versions{}
	for key, p := range c.known[clusterName] {
		all[key] = p.known // p.known is replaced, never changed
	}
	return all, nil
}

// Age makes every recorded heartbeat look older by the given duration.
func (c *Memory) Age(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.alive {
		for key, m := range all {
			m.Heartbeat = m.Heartbeat.Add(-by)
			all[key] = m
		}
	}
}
