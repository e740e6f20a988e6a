//go:build linux

package main

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// A board is a custom backend. Its author used only the comments of cluster.Coordinator,
// and clustertest.Conformance.
type board struct {
	mu      sync.Mutex
	records map[place]*record
	known   map[place]publication
}

// A place is a cluster together with a member's name, or with its key.
type place struct{ cluster, name string }

type record struct {
	member cluster.Member
	beat   time.Time
}

type publication struct {
	version, revision int64
	known             cluster.Versions
}

func newBoard() *board {
	return &board{records: map[place]*record{}, known: map[place]publication{}}
}

func (b *board) Heartbeat(ctx context.Context, beat cluster.Beat) (cluster.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return cluster.Snapshot{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, self := time.Now(), beat.Self
	at, leased := place{self.Cluster, self.Name}, self.NodeID != cluster.NoNodeID
	for _, r := range b.records { // for each node ID, only the newest lease is valid, whatever the name of its holder
		if m := r.member; leased && m.Cluster == self.Cluster && m.Key() == self.Key() && m.Version > self.Version {
			return cluster.Snapshot{}, cluster.ErrDropped
		}
	}
	r := b.records[at]
	same := r != nil && r.member.SessionID == self.SessionID
	if same && now.Sub(r.beat) > beat.Timeout {
		return cluster.Snapshot{}, cluster.ErrDropped
	}
	switch {
	case leased:
	case r == nil:
		self.Version = 1
	case same:
		self.Version = r.member.Version
	default:
		self.Version = r.member.Version + 1
	}
	self.Heartbeat = now
	b.records[at] = &record{self, now}
	var s cluster.Snapshot
	for at, r := range b.records {
		if at.cluster == self.Cluster && now.Sub(r.beat) <= beat.Timeout {
			s.Members = append(s.Members, r.member)
		}
	}
	return s, nil
}

func (b *board) Expire(_ context.Context, name string, age time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.records, func(p place, r *record) bool { return p.cluster == name && time.Since(r.beat) > age })
	alive := map[string]bool{}
	for at, r := range b.records {
		alive[r.member.Key()] = alive[r.member.Key()] || at.cluster == name
	}
	maps.DeleteFunc(b.known, func(p place, _ publication) bool { return p.cluster == name && !alive[p.name] })
	return nil
}

func (b *board) Publish(_ context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := place{m.Cluster, m.Key()}
	if p := b.known[at]; p.version < m.Version || p.version == m.Version && p.revision < revision {
		b.known[at] = publication{m.Version, revision, known}
	}
	return nil
}

func (b *board) Known(_ context.Context, name string) (map[string]cluster.Versions, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]cluster.Versions{}
	for at, p := range b.known {
		if at.cluster == name {
			all[at.name] = p.known
		}
	}
	return all, nil
}

// A line is one node's connection to a board. On it, the next heartbeats fail, as many as
// fail contains.
type line struct {
	*board
	fail, beats atomic.Int64
}

func (l *line) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	l.beats.Add(1)
	if l.fail.Load() > 0 {
		l.fail.Add(-1)
		return cluster.Snapshot{}, errors.New("the line is down")
	}
	return l.board.Heartbeat(ctx, b)
}
