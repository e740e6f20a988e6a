package snowflake

import (
	"context"
	"math"
)

// NextN fills dst with IDs that grow. It draws as many as a tick has left at
// once, which costs below a nanosecond each, and waits for the next tick as
// NextContext does. The first n of dst are valid also when the error is not nil.
func (g *Generator) NextN(ctx context.Context, dst []ID) (n int, err error) {
	for n < len(dst) {
		tm, first, got, err := g.reserve(uint64(len(dst) - n))
		if err != nil {
			return n, g.refuse(err)
		}
		if got == 0 { // queue up for the next tick with one of them
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
