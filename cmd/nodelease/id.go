package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// takenApart is an ID with its parts.
type takenApart struct {
	ID       snowflake.ID `json:"id"`
	ReadAs   string       `json:"read_as"`
	Time     time.Time    `json:"time"`
	Node     int          `json:"node"`
	Sequence int          `json:"sequence"`
	Layout   string       `json:"layout"`
	Base32   string       `json:"base32"`
	Base58   string       `json:"base58"`
	Hex      string       `json:"hex"`
	MadeBy   *madeBy      `json:"made_by,omitempty"`
}

// idRange is the result of --first and --last.
type idRange struct {
	First snowflake.ID `json:"first,omitzero"`
	Last  snowflake.ID `json:"last,omitzero"`
}

func newID(g *globals) *cobra.Command {
	var layout, from, to, first, last string
	cmd := &cobra.Command{
		Use:   "id [ID… | -]",
		Short: "Decode IDs, convert them, and find the first and last ID of a time",
		Long: "Decode IDs into time, node and sequence, and show them in every encoding. With a table and a pool, also show which task\n" +
			"made the ID, if that is still known, and decode it with the width that the pool's node IDs had at that time. --first and\n" +
			"--last print the smallest and the largest ID of a time, for queries by ID.\n\n" +
			"Encodings: decimal, base32 (Crockford, 13 characters), base58 (11), hex (16). Times: 2026-11-21T04:05:06Z, 2026-11-21,\n" +
			"Unix milliseconds, now, or a distance from now such as -1h.\n\nLayouts:\n" + describeLayouts(),
		Example: "  nodelease id 249733066275188748\n" +
			"  nodelease id 249733066275188748 --table leases --pool orders      also who made it\n" +
			"  nodelease id 06XSTWT800W0C --to decimal\n" +
			"  nodelease id - --to hex <ids.txt\n" +
			"  nodelease id 175928847299117063 --layout discord\n" +
			"  psql -c \"SELECT … WHERE id BETWEEN $(nodelease id --first -1h) AND $(nodelease id --last now)\"",
		Args: func(_ *cobra.Command, args []string) error {
			switch ranged := first != "" || last != ""; {
			case len(args) == 0 && !ranged:
				return usagef("which ID? Name one or more, or use --first or --last with a time")
			case len(args) > 0 && ranged:
				return usagef("--first and --last take a time and no ID")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := encodings[to]
			if !ok {
				return usagef("--to %s: use %s", to, strings.Join(slices.Sorted(maps.Keys(encodings)), ", "))
			}
			maker, l, err := g.maker(cmd.Context(), layout)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return printRange(cmd, g.json, l, first, last, write)
			}
			if len(args) == 1 && args[0] == "-" {
				if args, err = fieldsOf(typed{cmd.Context(), cmd.InOrStdin()}); err != nil {
					return err
				}
			}
			var all []takenApart
			for _, arg := range args {
				id, as, err := readID(arg, from, l, time.Now())
				if err != nil {
					return &usageError{err}
				}
				t := takeApart(id, as, l)
				if maker != nil {
					t.MadeBy = maker(cmd.Context(), t)
				}
				all = append(all, t)
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"ids": all})
			}
			for i, t := range all {
				shown := text.Sprintf("%s\n", write(t.ID))
				if !cmd.Flags().Changed("to") {
					shown = t.text(cmd.OutOrStdout(), time.Now())
					if i > 0 {
						shown = text.Sprintf("\n%s", shown)
					}
				}
				if err := say(cmd.OutOrStdout(), shown); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&layout, "layout", "", "`layout` of the IDs: a name or T/N/S, see above (default: the pool's, or default without a pool)")
	f.StringVar(&from, "from", "", "the `encoding` of the ID (default: recognized by its form)")
	f.StringVar(&to, "to", "decimal", "print only the ID, in this `encoding`")
	f.Lookup("to").DefValue = "" // without --to, all parts of an ID are printed
	f.StringVar(&first, "first", "", "print the smallest ID of this `time`")
	f.StringVar(&last, "last", "", "print the largest ID of this `time`")
	complete(cmd, "layout", leasepool.LayoutNames()...)
	complete(cmd, "from", slices.Sorted(maps.Keys(encodings))...)
	complete(cmd, "to", slices.Sorted(maps.Keys(encodings))...)
	return cmd
}

// fieldsOf reads IDs that are separated by white space.
func fieldsOf(in io.Reader) ([]string, error) {
	const most = 64 << 20
	all, err := io.ReadAll(io.LimitReader(in, most))
	ids := strings.Fields(string(all))
	switch {
	case err != nil:
		return nil, fmt.Errorf("standard input: %w", err)
	case len(ids) == 0:
		return nil, usagef("-: standard input has no ID")
	case len(all) == most:
		return nil, usagef("-: standard input has more than %d bytes", most)
	}
	return ids, nil
}

// printRange prints the requested bounds, one per line.
func printRange(cmd *cobra.Command, asJSON bool, l idLayout, first, last string, write func(snowflake.ID) string) error {
	var r idRange
	var lines text.Builder
	for _, bound := range []struct {
		flag, at string
		id       *snowflake.ID
		of       func(snowflake.Layout, time.Time) snowflake.ID
	}{
		{"--first", first, &r.First, snowflake.Layout.First},
		{"--last", last, &r.Last, snowflake.Layout.Last},
	} {
		if bound.at == "" {
			continue
		}
		t, err := parseTime(bound.flag, bound.at, time.Now())
		if err != nil {
			return err
		}
		if t.Before(l.Epoch) || !t.Before(l.Expires()) {
			return usagef("%s %s: the layout %s has IDs from %s to %s", bound.flag, bound.at, l.name, l.Epoch.Format(time.DateOnly), l.Expires().Format(time.DateOnly))
		}
		*bound.id = bound.of(l.Layout, t)
		lines.Printf("%s\n", write(*bound.id))
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), r)
	}
	return say(cmd.OutOrStdout(), lines.Safe())
}

func takeApart(id snowflake.ID, as string, l idLayout) takenApart {
	p := l.takeApart(id)
	return takenApart{
		ID: id, ReadAs: as, Time: p.Time, Node: p.Node, Sequence: p.Sequence, Layout: l.name,
		Base32: id.Base32(), Base58: id.Base58(), Hex: hexOf(id),
	}
}

func (t takenApart) text(out io.Writer, now time.Time) text.Safe {
	var b text.Builder
	line := func(name, value string) {
		b.Printf("%s\n", folded(out, text.Sprintf("  %s %s", faint.of("%-9s", name), command(value)), 12))
	}
	b.Printf("%s%s\n", bold.of("%s", t.ID), faint.of(" (read as %s)", t.ReadAs))
	line("time", moment(t.Time, now))
	line("node", fmt.Sprint(t.Node))
	line("sequence", fmt.Sprint(t.Sequence))
	line("layout", t.Layout)
	line("base32", t.Base32)
	line("base58", t.Base58)
	line("hex", t.Hex)
	if t.MadeBy != nil {
		line("made by", t.MadeBy.Text)
	}
	return b.Safe()
}

// madeBy describes who made an ID, as far as the table still records that.
type madeBy struct {
	Text    string `json:"text"`
	Version int64  `json:"version,omitempty"` // version of the lease; 0: not known
	Task    string `json:"task,omitempty"`
}

// maker returns the layout of the IDs and, if the flags name a table, a function that
// finds out who made an ID. IDs are decoded even if the table cannot be read.
func (g *globals) maker(ctx context.Context, layout string) (who func(context.Context, takenApart) *madeBy, l idLayout, err error) {
	if l, err = namedLayout(layout); err != nil {
		return nil, l, err
	}
	if g.table == "" || g.pool == "" {
		return nil, l, nil
	}
	var item leasepool.Item
	store, err := g.store(ctx)
	if err == nil {
		item, err = store.PoolItem(ctx, g.pool)
	}
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return nil, l, err
	case err != nil:
		unknown := &madeBy{Text: "not known: " + plain(err)}
		return func(context.Context, takenApart) *madeBy { return unknown }, l, nil
	}
	if l, err = l.of(item, layout != ""); err != nil {
		return nil, l, err
	}
	return func(ctx context.Context, t takenApart) *madeBy {
		number, err := store.Get(ctx, g.pool, t.Node)
		if err != nil {
			return &madeBy{Text: "not known: " + plain(err)}
		}
		return whoMade((*lease.Lease)(number), t)
	}, l, nil
}

// whoMade finds the holder that made an ID. Each millisecond of a node ID belongs to at
// most one lease, and the item records only the time span of the latest lease.
func whoMade(l *lease.Lease, t takenApart) *madeBy {
	switch {
	case l == nil:
		return &madeBy{Text: fmt.Sprintf("not by this pool: it has no node %d; is the layout another one?", t.Node)}
	case l.Version == 0:
		return &madeBy{Text: fmt.Sprintf("not by this pool: node %d was never held", l.NodeID)}
	case !t.Time.After(l.NotBefore):
		return &madeBy{Text: fmt.Sprintf("a holder before version %d; the table remembers only the last one", l.Version)}
	case t.Time.After(l.ReservedUntil):
		return &madeBy{Text: fmt.Sprintf("not by this pool: no time after %s was ever reserved for node %d; is it another layout or pool?", l.ReservedUntil.Format(time.RFC3339), l.NodeID)}
	}
	holds := "held node %d last"
	if l.Holder != "" {
		holds = "holds node %d now"
	}
	return &madeBy{Text: fmt.Sprintf("version %d, %s, which "+holds, l.Version, text.Quote(l.Task), l.NodeID), Version: l.Version, Task: l.Task}
}
