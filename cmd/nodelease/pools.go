package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// pools is the result of the command pools.
type pools struct {
	Table string       `json:"table"`
	Pools []listedPool `json:"pools"`
}

// listedPool is a pool, or the reason why it cannot be read.
type listedPool struct {
	leasepool.Item
	Problem string `json:"problem,omitempty"`
}

func newPools(g *globals) *cobra.Command {
	var names bool
	cmd := &cobra.Command{
		Use:   "pools",
		Short: "List the pools of a table",
		Long: "List the pools of a table, with their sizes. They are read from an index that seeding keeps, one item for each pool, rather than\n" +
			"by a Scan. nodelease doctor --repair adds a pool that is missing from the index.",
		Example: "  nodelease pools --table leases\n  nodelease pools --table leases -o name",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.checkTable(); err != nil {
				return err
			}
			client, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			store := lease.NewDynamoDB(client, g.table)
			found, err := leasepool.Names(cmd.Context(), store)
			if err != nil {
				return err
			}
			result := pools{Table: g.table, Pools: []listedPool{}}
			for _, name := range found {
				p := listedPool{Item: leasepool.Item{Pool: name}}
				if !names {
					if p, err = readPool(cmd, store, name); err != nil {
						return err
					}
				}
				result.Pools = append(result.Pools, p)
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), result)
			}
			return say(cmd.OutOrStdout(), result.text(widthOf(cmd.OutOrStdout()), names))
		},
	}
	cmd.Flags().VarPF(&onlyName{&names}, "output", "o", "`format` of the output: name (names only)")
	complete(cmd, "output", "name")
	return cmd
}

// readPool reads the pool's own item. If the item is invalid, the pool is listed with the
// reason why its item cannot be read.
func readPool(cmd *cobra.Command, store lease.Store, name string) (listedPool, error) {
	item, err := store.PoolItem(cmd.Context(), name)
	var corrupt *lease.CorruptError
	if errors.As(err, &corrupt) || errors.Is(err, lease.ErrPoolNotSeeded) || errors.Is(err, lease.ErrItemFormat) || errors.Is(err, lease.ErrAccess) {
		return listedPool{Item: leasepool.Item{Pool: name}, Problem: text.Line(plain(err))}, nil
	}
	return listedPool{Item: item}, err
}

func (p pools) text(width int, names bool) text.Safe {
	var b text.Builder
	if names {
		for _, pool := range p.Pools {
			b.Printf("%s\n", pool.Pool)
		}
		return b.Safe()
	}
	s := sheet{headers: []string{"POOL", "NODE IDS", "CREATED", "PROBLEM"}, long: 3}
	now := time.Now()
	for _, pool := range p.Pools {
		size := "-"
		if pool.Size > 0 {
			size = itoa(pool.Size - pool.ExcludeBelow)
		}
		s.rows = append(s.rows, []string{pool.Pool, size, distance(pool.CreatedAt, now), pool.Problem})
	}
	if len(s.rows) > 0 {
		b.Add(s.text(width))
	}
	b.Printf("%s in table %s\n", count(len(p.Pools), "pool", "pools"), p.Table)
	return b.Safe()
}

// onlyName is the -o flag of a command whose only other format is "name".
type onlyName struct{ on *bool }

func (o *onlyName) String() string { return "" }

func (o *onlyName) Type() string { return "form" }

func (o *onlyName) Set(s string) error {
	if s != "name" {
		return errors.New("use name")
	}
	*o.on = true
	return nil
}
