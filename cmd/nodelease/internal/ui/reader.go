package ui

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

const (
	// readsPerTurn is the largest number of groups that a turn reads. It bounds the cost of
	// a turn: reading a group is one Query, about 20 read units. Larger pools take several
	// turns to be read.
	readsPerTurn = 32
	// readers is the largest number of groups that are read at the same time.
	readers = 8
	// readLimit is how long a turn may take.
	readLimit = 10 * time.Second
)

// turn reads the groups of the pool that are due. Successful reads count, even if others
// fail.
func (s *Server) turn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	began, c, read := time.Now(), newChange(), 0
	pool, err := s.source.PoolItem(ctx, s.pool)
	if err == nil {
		s.mu.Lock()
		s.model.pool = pool
		due, whole := s.due(), s.whole
		s.mu.Unlock()
		if whole {
			read, err = s.readAll(ctx, due, c)
		} else {
			read, err = s.readWhole(ctx, c)
		}
	}
	s.finish(c, read, began, err)
}

// readWhole reads every group for the first time. It continues above the pool's last group
// as long as it finds node IDs, because a pool that was made smaller has retired node IDs
// there.
//
// Invariant (liveness): the first read ends, even if it takes longer than a turn. Each turn
// reads only groups that no turn before it has read.
func (s *Server) readWhole(ctx context.Context, c *change) (read int, err error) {
	var all []int
	for i := range s.model.pool.Groups() {
		if !s.known(i) {
			all = append(all, i)
		}
	}
	read, err = s.readAll(ctx, all, c)
	for i := s.model.pool.Groups(); err == nil && i < protocol.MaxPoolSize/protocol.GroupSize; i++ {
		if s.known(i) {
			continue
		}
		g, e := s.source.Group(ctx, s.pool, i)
		if err = e; err != nil || len(g.Leases)+len(g.Corrupt) == 0 {
			break
		}
		s.mu.Lock()
		s.model.read(i, g, time.Now(), c)
		s.mu.Unlock()
		read++
	}
	c.news = nil // the first read shows no changes
	s.whole = err == nil
	return read, err
}

// known reports whether a group was read.
func (s *Server) known(i int) bool {
	return i < len(s.model.groups) && !s.model.groups[i].readAt.IsZero()
}

// due chooses the groups to read. First come those that a page shows, then those in which
// something can happen. Last comes the one of the other groups that was read longest ago,
// since a resize or an operator may have changed it.
func (s *Server) due() []int {
	watched := s.watched()
	var due, rest []int
	for i := range max(s.model.pool.Groups(), len(s.model.groups)) {
		if i >= len(s.model.groups) || i < s.model.pool.OpenGroups || s.model.groups[i].lively() || watched[i] {
			due = append(due, i)
		} else {
			rest = append(rest, i)
		}
	}
	age := func(i int) time.Time {
		if i >= len(s.model.groups) || watched[i] {
			return time.Time{}
		}
		return s.model.groups[i].readAt
	}
	oldest := func(a, b int) int { return age(a).Compare(age(b)) }
	slices.SortFunc(due, oldest)
	due = due[:min(len(due), readsPerTurn)]
	if len(rest) > 0 {
		due = append(due, slices.MinFunc(rest, oldest))
	}
	return due
}

// lively reports whether anything can happen in a group by itself, even if the group is not
// open.
func (g *group) lively() bool {
	return g.counts.of(lease.Held)+g.counts.of(lease.Expired)+g.counts.of(lease.Cooling) > 0
}

// readAll reads groups, several at a time, and returns how many it could read.
func (s *Server) readAll(ctx context.Context, due []int, c *change) (read int, err error) {
	next := make(chan int, len(due))
	for _, i := range due {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(len(due), readers) {
		wg.Go(func() {
			for i := range next {
				at := time.Now() // taken before the read, so that the state is at least as new
				g, e := s.source.Group(ctx, s.pool, i)
				s.mu.Lock()
				if e == nil {
					s.model.read(i, g, at, c)
					read++
				}
				err = errors.Join(err, e)
				s.mu.Unlock()
				if e != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return read, err
}
