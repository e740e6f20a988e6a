package snowflake

// Block is a generator for one goroutine in a hot loop. It draws a few dozen
// numbers at once from the shared state and hands them out alone, so that it
// scales with the cores where Next does not. The clock and the fence are looked
// at on each call, as in Next.
//
// Its IDs grow strictly. Against those of other goroutines they are ordered to
// the tick only (to WithCatchUp when saturated), not inside of it. The wall clock is looked at
// when the block draws. It is not safe for concurrent use, and need not be given
// back: numbers left over are lost.
type Block struct {
	_    [128]byte // blocks of several goroutines in one slice share no cache line
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

// Block makes a block that draws from g.
func (g *Generator) Block() *Block {
	return &Block{g: g, tm: g.t.term.Load(), size: firstBlock}
}

// Next is Generator.Next from the block.
func (b *Block) Next() (ID, error) {
	tm := b.tm
	now := b.g.now(tm)
	// A sealed term's deadline is in the past: no need to ask for the present one.
	if b.next < b.end && now < tm.deadline.Load() && tm.tickAt(now)-tm.tickOf(b.next) <= tm.lag.Load() {
		ticket := b.next
		b.next++
		return tm.id(ticket), nil
	}
	return b.refill()
}

// refill drops what is left, which is of a tick or a term gone by, and draws
// anew: more each time that a tick was not enough, up to a sixteenth of it.
func (b *Block) refill() (ID, error) {
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
