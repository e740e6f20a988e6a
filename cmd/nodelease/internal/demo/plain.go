package demo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Plain is a view that prints lines, for output that is not a terminal.
type Plain struct{ Out io.Writer }

// News implements [View].
func (p Plain) News(n News) {
	fmt.Fprintf(p.Out, "%6.1fs  %-10s %s\n", n.At.Seconds(), n.Kind, n.Text)
}

const plainEvery = 2 * time.Second

// Run implements [View]. Every other second it prints how far the demo is.
func (p Plain) Run(ctx context.Context, b *Board) error {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s := b.snapshot()
			held := 0
			for _, n := range s.NodeIDs {
				if n.State == taskHolding {
					held++
				}
			}
			b.Tell("so far", "%d of %d node IDs held, %s IDs compared, %s a second, %d duplicates", held, s.Options.Size, thousands(s.IDs), thousands(int(s.PerSecond)), s.Duplicates)
		}
	}
}
