package snowflake

import (
	"context"
	"math"
)

// Block is a generator for one goroutine in a hot loop. It draws a few dozen
// tickets at once from the shared state and then uses them without touching that
// state. So its throughput grows with the number of cores, unlike that of Next.
// Each call checks the clock and the fence, as Next does; the wall clock is read
// when the block draws tickets.
//
// Its IDs increase strictly. Relative to the IDs of other goroutines, their order
// is exact only to the tick, or to WithCatchUp while the generator is saturated. A
// Block is not safe for concurrent use and must not be copied; vet reports copies.
// It need not be closed: unused tickets are lost, and a release treats them as
// stamped.
type Block struct {
	_    noCopy    // two copies would hand out the same tickets
	_    [128]byte // keeps blocks of different goroutines in one slice on different cache lines
	g    *Generator
	tm   *term
	next uint64
	end  uint64
	size uint64
	_    [128]byte
}

const (
	firstBlock = 8
	lastBlock  = 256
)

// Block returns a block that draws from g.
func (g *Generator) Block() *Block {
	if g == nil || g.t == nil {
		return &Block{g: g}
	}
	return &Block{g: g, tm: g.t.term.Load(), size: firstBlock}
}

// Next returns the next ID, as Generator.Next does, but from the tickets of the
// block.
func (b *Block) Next() (ID, error) {
	if b != nil && b.next < b.end {
		tm := b.tm
		now := b.g.now(tm)
		// A sealed term's deadline is in the past: no need to look up the current term.
		if now < tm.deadline.Load() && tm.tickAt(now)-tm.tickOf(b.next) <= tm.lag.Load() {
			ticket := b.next
			b.next++
			return tm.id(ticket), nil
		}
	}
	return b.refill()
}

// refill drops the remaining tickets, which belong to a past tick or term, and
// draws new tickets. If no tickets remained, it draws twice as many as the last
// time, up to lastBlock or a sixteenth of a tick.
func (b *Block) refill() (ID, error) {
	if b == nil || b.g == nil || b.g.t == nil {
		return 0, errNotNew
	}
	g := b.g
	if b.next < b.end {
		g.t.counters.skipped.Add(b.end - b.next)
		b.next, b.size = b.end, firstBlock
	} else if b.size < min(lastBlock, uint64(1)<<b.tm.seqBits/16) {
		b.size *= 2
	}
	tm, first, n, err := g.reserve(b.size)
	if err != nil {
		return 0, g.refuse(err)
	}
	if n == 0 {
		return g.slow(nil, g.maxWait)
	}
	b.tm, b.next, b.end = tm, first+1, first+n
	return tm.id(first), nil
}

// NextN fills dst with increasing IDs. It draws all IDs that are left in the tick
// at once, as far as they are needed, which takes less than a nanosecond per ID.
// It waits for the next tick as NextContext does. The first n elements of dst are
// valid even if the error is not nil.
func (g *Generator) NextN(ctx context.Context, dst []ID) (n int, err error) {
	for n < len(dst) {
		tm, first, got, err := g.reserve(uint64(len(dst) - n))
		if err != nil {
			return n, g.refuse(err)
		}
		if got == 0 { // queue up for the next tick with one ticket
			if dst[n], err = g.slow(ctx, math.MaxInt64); err != nil {
				return n, err
			}
			n++
			continue
		}
		tm.fill(dst[n:n+int(got)], first)
		n += int(got)
	}
	return n, nil
}
