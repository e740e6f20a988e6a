package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// sizes are the flags of the commands that create node IDs.
type sizes struct {
	size, low int
	expect    int
	floor     string
	layout    string
	narrow    bool
}

func (s *sizes) flags(cmd *cobra.Command, size string) {
	f := cmd.Flags()
	f.IntVar(&s.low, "exclude-below", 0, "number of lowest node IDs that are never leased, for unmanaged processes; cannot be changed later")
	f.StringVar(&s.floor, "floor", "", "IDs from new node IDs begin at this `time`, now or later; for pools whose node IDs are assigned by hand until then (default: now)")
	f.IntVar(&s.size, "size", 0, size)
	f.IntVar(&s.expect, "expect", 0, "how many node IDs will be held at once: opens groups for half as many again, so that a large fleet can start at once (default: opened as they fill)")
}

func (s *sizes) spec() (spec leasepool.Spec, err error) {
	switch {
	case s.size < 1 || s.size > leasepool.MaxSize:
		return spec, usagef("--size %d: use 1 to %d, the limit of 16 bits", s.size, leasepool.MaxSize)
	case s.low < 0 || s.low >= s.size:
		return spec, usagef("--exclude-below %d: use 0 to %d", s.low, s.size-1)
	case s.expect < 0 || s.expect > s.size-s.low:
		return spec, usagef("--expect %d: use 1 to %d, the node IDs that can be leased, or 0 if unknown", s.expect, s.size-s.low)
	}
	spec = leasepool.Spec{Size: s.size, ExcludeBelow: s.low, Narrow: s.narrow, Expect: s.expect}
	if s.layout != "" {
		if spec.Layout, err = parseLayout(s.layout); err != nil {
			return spec, err
		}
	}
	if s.floor != "" {
		spec.Floor, err = parseFuture("--floor", s.floor, time.Now())
	}
	return spec, err
}

func newSeed(g *globals) *cobra.Command {
	s := sizes{}
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Create a pool and its node IDs, if they do not exist",
		Long: "Create a pool and its node IDs 0 to size-1, if they do not exist. It can be run again, and several times at once;\n" +
			"existing node IDs are never changed. Run it again with a larger --expect to open more groups.",
		Example: "  nodelease seed --table leases --pool orders --size 1024\n" +
			"  nodelease seed --table leases --pool orders --size 1024 --exclude-below 32    0 to 31 are assigned by hand\n" +
			"  nodelease seed --table leases --pool orders --size 4096 --layout wide16\n" +
			"  nodelease seed --table leases --pool orders --size 16384 --expect 10000 --layout wide16\n" +
			"  nodelease seed --table leases --pool orders --size 1024 --floor 2026-12-01T00:00:00Z",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := s.spec()
			if err != nil {
				return err
			}
			pool, _, err := g.open(cmd.Context())
			if err != nil && !errors.Is(err, lease.ErrPoolNotSeeded) {
				return err
			}
			done := progressOn(cmd.ErrOrStderr(), pool, "seeding")
			c, err := pool.Seed(cmd.Context(), spec)
			done()
			if err != nil {
				return err
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), c)
			}
			return say(cmd.OutOrStdout(), text.Sprintf("pool %s has %s, %d of them new\n%s", g.pool, count(c.Pool.Size-c.Pool.ExcludeBelow, "node ID", "node IDs"), c.Seeded, corrupted(c.Corrupt)))
		},
	}
	s.flags(cmd, "how many node IDs the pool has, 1 to 65536")
	cmd.Flags().Lookup("size").DefValue, s.size = "1024", 1024
	cmd.Flags().StringVar(&s.layout, "layout", "", "`layout` of all IDs of the pool: a name or T/N/S, as in nodelease id --help (default: that of the first program that makes IDs)")
	complete(cmd, "layout", leasepool.LayoutNames()...)
	cmd.Flags().BoolVar(&s.narrow, "narrow", false, "node IDs get only the bits that those in use need, and sequences get the others; cannot be changed later")
	return cmd
}
