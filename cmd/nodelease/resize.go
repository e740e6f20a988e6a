package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func newResize(g *globals) *cobra.Command {
	s := sizes{}
	var t taking
	cmd := &cobra.Command{
		Use:   "resize",
		Short: "Change how many node IDs a pool has",
		Long: "Change how many node IDs a pool has. Growing brings retired node IDs back into use and creates the missing ones. Shrinking\n" +
			"retires the highest, after confirmation: their holders may finish, no other process can claim them, and nothing is deleted.\n" +
			"It can be run again, and continues where it stopped. If a stack declares the size, change it there as well.",
		Example: "  nodelease resize --table leases --pool orders --size 2048\n  nodelease resize --table leases --pool orders --size 512 --dry-run",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("size") {
				return usagef("which size? Use --size, 1 to %d", leasepool.MaxSize)
			}
			spec, err := s.spec()
			if err != nil {
				return err
			}
			pool, read, err := g.reader(cmd.Context())
			if err != nil {
				return err
			}
			item, err := read(cmd.Context())
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("exclude-below") {
				spec.ExcludeBelow = item.ExcludeBelow
			}
			spec.Narrow = narrow(item)
			// Invariant: no node ID is retired that was not shown. Someone else may resize the pool at
			// the same moment, or while the user thinks about the question.
			spec.From = item.Size
			if most := spec.Size - spec.ExcludeBelow; most > 0 && spec.Expect > most {
				return usagef("--expect %d: use 1 to %d, the node IDs that can be leased, or 0 if unknown", spec.Expect, most)
			}
			if spec.ExcludeBelow >= spec.Size {
				return usagef("--size %d: pool %s never leases node IDs below %d (--exclude-below); use a larger size", spec.Size, item.Pool, spec.ExcludeBelow)
			}
			if t.dry || spec.Size < item.Size {
				l, err := look(cmd.Context(), pool, item)
				if err != nil {
					return err
				}
				would := l.resized(spec.Size)
				if t.dry && g.json {
					return writeJSON(cmd.OutOrStdout(), would)
				}
				means := whatResizeMeans(item, would)
				if t.dry {
					return say(cmd.OutOrStdout(), text.Sprintf("%sA dry run: nothing was done.\n", means))
				}
				if err := t.confirm(cmd, means, "Resize it?"); err != nil {
					return err
				}
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "resizing")
			c, err := pool.Resize(cmd.Context(), spec)
			done()
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), c)
			}
			return say(cmd.OutOrStdout(), resized(item, c))
		},
	}
	s.flags(cmd, "how many node IDs the pool has from now on, 1 to 65536")
	cmd.Flags().Lookup("exclude-below").Hidden = true // resize cannot change this value
	t.register(cmd)
	return cmd
}

// resized returns the changes that a resize to size would make to the listed node IDs.
func (l *listed) resized(size int) leasepool.Changes {
	c := leasepool.Changes{Pool: l.Pool, Corrupt: l.Corrupt}
	c.Pool.Size = size
	if narrow(c.Pool) { // a resize first finishes a change of the width
		bits, _ := c.Pool.NextBits()
		c.Pool.ExistBelow = max(c.Pool.ExistBelow, min(size, 1<<max(bits, c.Pool.Bits())))
	}
	there := 0
	for _, n := range l.Nodes {
		switch {
		case n.NodeID >= size && !n.Retired:
			c.Retired++
		case n.NodeID < size && n.Retired:
			c.Restored++
		}
		if n.NodeID >= size && n.Holder != "" {
			c.Finishing++
		}
		if n.NodeID < size && n.NodeID >= l.Pool.ExcludeBelow {
			there++
		}
	}
	for n := range l.own {
		if n >= l.Pool.ExcludeBelow && n < c.Pool.Limit() {
			there++
		}
	}
	c.Seeded = max(0, c.Pool.Limit()-l.Pool.ExcludeBelow-there)
	return c
}

// whatResizeMeans describes the effect that a resize would have.
func whatResizeMeans(before leasepool.Item, c leasepool.Changes) text.Safe {
	var b text.Builder
	b.Printf("Pool %s would have node IDs below %d, now below %d: %d to make, %d to take back into use, %d to retire.\n",
		c.Pool.Pool, c.Pool.Size, before.Size, c.Seeded, c.Restored, c.Retired)
	if c.Finishing > 0 {
		b.Printf("%s\n", bad.of("Retired and still held: %d. Their holders may finish, and get another node ID when they start again.", c.Finishing))
	}
	return b.Safe()
}

// narrow reports whether the pool's node IDs become wider as more groups are opened.
func narrow(p leasepool.Item) bool { return len(p.Eras) > 0 }

// resized describes the effect of a resize.
func resized(before leasepool.Item, c leasepool.Changes) text.Safe {
	var b text.Builder
	b.Printf("pool %s has %s now, before %d: %d made, %d back in use, %d retired\n", c.Pool.Pool, count(c.Pool.Size, "node ID", "node IDs"), before.Size, c.Seeded, c.Restored, c.Retired)
	if c.Finishing > 0 {
		b.Printf("%s retired and still held; their holders may finish, and get another node ID when they start again\n", count(c.Finishing, "node ID is", "node IDs are"))
	}
	b.Add(corrupted(c.Corrupt))
	return b.Safe()
}

// corrupted lists the corrupt items, which the resize left unchanged.
func corrupted(c leasepool.Corrupt) text.Safe {
	var b text.Builder
	for _, n := range slices.Sorted(maps.Keys(c)) {
		b.Printf("node %d is corrupt and was left alone: %s\n", n, c[n])
	}
	return b.Safe()
}
