package leasepool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nodelease/nodelease/internal/protocol"
)

const (
	// maxGroups is the number of groups of the largest pool.
	maxGroups = protocol.MaxPoolSize / protocol.GroupSize
	// sweepers is the number of groups processed at once.
	sweepers = 16
)

// sweep is one run over the groups of a pool. It processes several groups at once.
type sweep struct {
	*Pool
	pace pace

	mu      sync.Mutex // for the fields below, and for the caller's report
	corrupt *Corrupt
	groups  int  // the known number of groups
	beyond  bool // there may be node IDs after the last group
	next    int
	done    int
}

// visit processes the node IDs of one group during a sweep.
type visit func(ctx context.Context, s *sweep, n int, g protocol.Group) error

// sweep calls fn for each group, until the first error. It continues after the last group
// while it finds node IDs, because a pool that was made smaller has retired node IDs
// there.
func (p *Pool) sweep(ctx context.Context, groups int, corrupt *Corrupt, fn visit) error {
	s := &sweep{Pool: p, corrupt: corrupt, groups: groups, beyond: true}
	return s.run(ctx, p.group, fn)
}

// sweepOpen is a sweep over only those groups that can contain leases. It uses reads that
// cost half as much and whose results may be a second old. This is safe, since writes are
// conditional on what was read.
func (p *Pool) sweepOpen(ctx context.Context, item protocol.PoolItem, corrupt *Corrupt, fn visit) error {
	s := &sweep{Pool: p, corrupt: corrupt, groups: openGroups(item)}
	return s.run(ctx, p.glance, fn)
}

// openGroups returns the number of groups that can contain leases.
func openGroups(item protocol.PoolItem) int {
	_, last := item.GroupsOpen()
	return max(last+1, item.OpenGroups)
}

// sweepNodeIDs is a sweep over all node IDs that a narrow pool has ever had.
func (p *Pool) sweepNodeIDs(ctx context.Context, item protocol.PoolItem, corrupt *Corrupt, fn visit) error {
	s := &sweep{Pool: p, corrupt: corrupt, groups: (item.ExistBelow + protocol.GroupSize - 1) / protocol.GroupSize}
	return s.run(ctx, p.group, fn)
}

func (s *sweep) run(ctx context.Context, read func(context.Context, int) (protocol.Group, error), fn visit) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range min(s.groups, sweepers) {
		wg.Go(func() {
			for n, ok := s.take(ctx); ok; n, ok = s.take(ctx) {
				g, err := read(ctx, n)
				if err == nil {
					err = fn(ctx, s, n, g)
				}
				if err != nil {
					cancel(err)
					return
				}
				s.finish(n, g)
			}
		})
	}
	wg.Wait()
	if total := min(s.groups, maxGroups); s.done < total {
		cause := context.Cause(ctx)
		if errors.Is(cause, errClaimed) || errors.Is(cause, protocol.ErrRefused) || errors.Is(cause, protocol.ErrSuperseded) {
			return cause // another run would find the same
		}
		return fmt.Errorf("lease: pool %q: %d of %d groups done, run it again to go on: %w", s.Name, s.done, total, cause)
	}
	return nil
}

// take returns the next group to work on, if there is one.
func (s *sweep) take(ctx context.Context) (n int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next >= min(s.groups, maxGroups) || ctx.Err() != nil {
		return 0, false
	}
	n = s.next
	s.next++
	return n, true
}

// finish counts a group as done, and adds the next group if it may exist.
func (s *sweep) finish(n int, g protocol.Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range g.Corrupt {
		s.corrupt.note(c)
	}
	if s.beyond && n == s.groups-1 && !empty(g) {
		s.groups++
	}
	if s.done++; s.Progress != nil {
		s.Progress(s.done, min(s.groups, maxGroups))
	}
}

// do does what send does, and reports only whether the write succeeded.
func (s *sweep) do(ctx context.Context, w protocol.Write, count *int) (applied bool, err error) {
	res, err := s.send(ctx, w, count)
	return res.Applied, err
}

// send sends one write, and counts it if it succeeded. If the item is corrupt, send
// records that, and returns no lease.
func (s *sweep) send(ctx context.Context, w protocol.Write, count *int) (res protocol.Result, err error) {
	if err := s.pace.wait(ctx); err != nil {
		return res, err
	}
	res, err = s.write(ctx, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.corrupt.note(err) {
		return protocol.Result{}, nil
	}
	if res.Applied {
		*count++
	}
	return res, err
}
