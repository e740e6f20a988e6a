package leasepool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Pool is a handle for the pool's verbs: seed, resize, reap, force release,
// raise, count. All of them may be run again, and by several at once, and go on
// where an earlier run stopped. They bear throttles and outages until their
// context ends, and then report what was done so far. A corrupt item is
// reported and stops nobody.
type Pool struct {
	Name string
	// Progress, if not nil, is called after each group of 256 numbers, one call at
	// a time. The total may grow.
	Progress func(done, total int)
	// Logger is told when Reap waits. Defaults to slog.Default().
	Logger *slog.Logger

	store protocol.Store
}

// Open gives a handle; it makes no request.
func Open(s protocol.Store, name string) *Pool { return &Pool{Name: name, store: s} }

// Item is what the table knows of a pool as a whole: its size, the groups that are
// open, and the widths that its node IDs have had.
type Item = protocol.PoolItem

const (
	// MaxSize is the largest number of node IDs in a pool: 16 bits of them.
	MaxSize = protocol.MaxPoolSize
	// GroupSize is how many node IDs share one partition of the table.
	GroupSize = protocol.GroupSize
)

// CheckName tells what is wrong with a pool's name, if anything: it is 1 to 64 of
// [A-Za-z0-9._-]. Without a # no pool looks like another one's group.
func CheckName(name string) error { return protocol.CheckPoolName(name) }

// Corrupt says of numbers what is wrong with their items.
type Corrupt map[int]string

// note remembers err if it concerns one item, and tells whether it did.
func (c *Corrupt) note(err error) bool {
	var corrupt *protocol.CorruptError
	if !errors.As(err, &corrupt) {
		return false
	}
	if *c == nil {
		*c = Corrupt{}
	}
	(*c)[corrupt.NodeID] = corrupt.Err.Error()
	return true
}

// item reads the pool's item.
func (p *Pool) item(ctx context.Context) (protocol.PoolItem, error) {
	if err := protocol.CheckPoolName(p.Name); err != nil {
		return protocol.PoolItem{}, fmt.Errorf("lease: %w", err)
	}
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolItem, error) { return p.store.PoolItem(ctx, p.Name) })
}

// poolSkew is the clock error that verbs which write bear. Floors and expiries
// are told by this machine's clock: one that is ahead would free live leases, and
// rest new numbers until it is right.
const poolSkew = 5 * time.Second

// itemInTime reads the pool's item and compares the clocks, also where there is
// no such pool.
func (p *Pool) itemInTime(ctx context.Context) (protocol.PoolItem, error) {
	before := time.Now()
	item, err := p.item(ctx)
	if skew := protocol.CheckSkew(before, time.Now(), item.ServerTime, poolSkew); skew != nil {
		return item, skew
	}
	return item, err
}

// write does one write of a number, until it is answered.
func (p *Pool) write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.Result, error) { return p.store.Write(ctx, w) })
}

// group reads one group, until it is answered.
func (p *Pool) group(ctx context.Context, n int) (protocol.Group, error) {
	return protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) { return p.store.Group(ctx, p.Name, n) })
}

// Glance reads one group of numbers, from 0, at half the price where the store
// offers that. What it gives may be a second old.
func (p *Pool) Glance(ctx context.Context, n int) (protocol.Group, error) {
	if s, ok := p.store.(interface {
		EventualGroup(ctx context.Context, pool string, group int) (protocol.Group, error)
	}); ok {
		return protocol.Retry(ctx, func(ctx context.Context) (protocol.Group, error) { return s.EventualGroup(ctx, p.Name, n) })
	}
	return p.group(ctx, n)
}

// Leases gives every number that has an item, lowest first, retired ones
// included. A corrupt item is given with its *CorruptError, and the next ones
// follow; any other error is the last.
func (p *Pool) Leases(ctx context.Context) iter.Seq2[protocol.Lease, error] {
	return func(yield func(protocol.Lease, error) bool) {
		item, err := p.item(ctx)
		groups := item.Groups()
		for n := 0; err == nil && n < min(groups, maxGroups); n++ {
			var g protocol.Group
			if g, err = p.group(ctx, n); err != nil {
				break
			}
			for _, c := range g.Corrupt {
				if !yield(protocol.Lease{Pool: p.Name, NodeID: c.NodeID}, c) {
					return
				}
			}
			for _, l := range g.Leases {
				if !yield(l, nil) {
					return
				}
			}
			if n == groups-1 && !empty(g) {
				groups++
			}
		}
		if err != nil {
			yield(protocol.Lease{}, err)
		}
	}
}

func empty(g protocol.Group) bool { return len(g.Leases) == 0 && len(g.Corrupt) == 0 }

const (
	maxGroups = protocol.MaxPoolSize / protocol.GroupSize
	// sweepers is how many groups are worked on at once.
	sweepers = 16
	// A sweep writes at most writesAtOnce numbers at once and writesPerSecond after
	// that: what one partition of a table takes, for all groups may lie in one. A
	// new table has four of them. So 65,536 numbers take 66 seconds.
	writesPerSecond = 1000
	writesAtOnce    = 1000
)

// pace keeps the writes of a sweep to a rate that a table bears.
type pace struct {
	mu   sync.Mutex
	paid time.Time // when the writes so far would have ended at writesPerSecond
}

// wait waits for one write's turn.
func (p *pace) wait(ctx context.Context) error {
	const each = time.Second / writesPerSecond
	p.mu.Lock()
	now := time.Now()
	p.paid = protocol.Latest(p.paid, now).Add(each)
	left := p.paid.Sub(now) - writesAtOnce*each
	p.mu.Unlock()
	if left <= 0 {
		return nil
	}
	return protocol.Pause(ctx, left)
}

// sweep is one run over the groups of a pool.
type sweep struct {
	*Pool
	mu      sync.Mutex // for what the groups share, the caller's report included
	corrupt *Corrupt
	pace    pace
}

// sweep reads groups, several at once, and calls fn for each, until the first
// error. It goes on behind the last one for as long as there are numbers:
// retired ones lie above a pool that was made smaller.
func (p *Pool) sweep(ctx context.Context, groups int, corrupt *Corrupt, fn func(ctx context.Context, s *sweep, n int, g protocol.Group) error) error {
	return p.run(ctx, groups, true, p.group, corrupt, fn)
}

// sweepOpen is a sweep over the groups that leases can be in, and no others. It
// writes only what is pinned on what it read, so answers may be a second old,
// which is half the price.
func (p *Pool) sweepOpen(ctx context.Context, item protocol.PoolItem, corrupt *Corrupt, fn func(ctx context.Context, s *sweep, n int, g protocol.Group) error) error {
	_, last := item.GroupsOpen()
	return p.run(ctx, max(last+1, item.OpenGroups), false, p.Glance, corrupt, fn)
}

// run is a sweep, behind the last group too or not.
func (p *Pool) run(ctx context.Context, groups int, beyond bool, read func(context.Context, int) (protocol.Group, error),
	corrupt *Corrupt, fn func(ctx context.Context, s *sweep, n int, g protocol.Group) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sweep{Pool: p, corrupt: corrupt}
	next, done := 0, 0
	take := func() (n int, ok bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n = next; n >= min(groups, maxGroups) || ctx.Err() != nil {
			return 0, false
		}
		next++
		return n, true
	}
	finish := func(n int, g protocol.Group) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range g.Corrupt {
			corrupt.note(c)
		}
		if beyond && n == groups-1 && !empty(g) {
			groups++
		}
		if done++; p.Progress != nil {
			p.Progress(done, min(groups, maxGroups))
		}
	}
	var wg sync.WaitGroup
	for range min(groups, sweepers) {
		wg.Go(func() {
			for n, ok := take(); ok; n, ok = take() {
				g, err := read(ctx, n)
				if err == nil {
					err = fn(ctx, s, n, g)
				}
				if err != nil {
					cancel(err)
					return
				}
				finish(n, g)
			}
		})
	}
	wg.Wait()
	if total := min(groups, maxGroups); done < total {
		return fmt.Errorf("lease: pool %q: %d of %d groups done, run it again to go on: %w", p.Name, done, total, context.Cause(ctx))
	}
	return nil
}

// do does one write, and counts it if it was done. A corrupt item is noted.
func (s *sweep) do(ctx context.Context, w protocol.Write, count *int) (applied bool, err error) {
	if err := s.pace.wait(ctx); err != nil {
		return false, err
	}
	res, err := s.write(ctx, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.corrupt.note(err) {
		return false, nil
	}
	if res.Applied {
		*count++
	}
	return res.Applied, err
}
