package cluster

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Memory is a [Coordinator] in memory, for tests and for clusters inside one
// process.
type Memory struct {
	mu    sync.Mutex
	alive map[string]map[string]Member // by cluster and Member.Key
	known map[string]map[string]Versions
}

var _ Coordinator = (*Memory)(nil)

// NewMemory gives an empty one.
func NewMemory() *Memory {
	return &Memory{alive: map[string]map[string]Member{}, known: map[string]map[string]Versions{}}
}

// Heartbeat implements [Coordinator].
func (c *Memory) Heartbeat(ctx context.Context, b Beat) ([]Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := b.Self.clone()
	all := c.alive[m.Cluster]
	if all == nil {
		all = map[string]Member{}
		c.alive[m.Cluster] = all
	}
	m.Heartbeat = time.Now()
	if m.Number == NoNumber {
		before := all[m.Key()]
		if m.Version = before.Version; before.SessionID != m.SessionID {
			m.Version++
		}
	}
	all[m.Key()] = m
	oldest := m.Heartbeat.Add(-b.Timeout)
	members := make([]Member, 0, len(all))
	for _, o := range all {
		if !o.Heartbeat.Before(oldest) {
			members = append(members, o)
		}
	}
	return members, nil
}

// Expire implements [Coordinator].
func (c *Memory) Expire(ctx context.Context, cluster string, age time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := time.Now().Add(-age)
	maps.DeleteFunc(c.alive[cluster], func(key string, m Member) bool {
		expired := m.Heartbeat.Before(oldest)
		if expired {
			delete(c.known[cluster], key)
		}
		return expired
	})
	return ctx.Err()
}

// Publish implements [Coordinator].
func (c *Memory) Publish(ctx context.Context, m Member, known Versions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[m.Cluster] == nil {
		c.known[m.Cluster] = map[string]Versions{}
	}
	c.known[m.Cluster][m.Key()] = maps.Clone(known)
	return ctx.Err()
}

// Known implements [Coordinator].
func (c *Memory) Known(ctx context.Context, cluster string) (map[string]Versions, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.known[cluster]), ctx.Err() // Versions are replaced, never changed
}
