package main

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
)

// form is an output format of list.
type form struct {
	name string
	json bool
}

var forms = []string{"wide", "json", "csv", "name"}

func (f *form) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.name, "output", "o", "", "`format` of the output: wide (also lease, session and metadata), json, csv or name (node IDs only)")
	complete(cmd, "output", forms...)
}

func (f *form) check(g *globals) error {
	if f.name != "" && !slices.Contains(forms, f.name) {
		return usagef("--output %s: use wide, json, csv or name", f.name)
	}
	if g.json && f.name != "" && f.name != "json" {
		return usagef("--json and --output %s exclude each other", f.name)
	}
	f.json = g.json || f.name == "json"
	return nil
}

// write prints the node IDs of a pool that match the filter.
func (f *form) write(out io.Writer, l *listed, only filter) error {
	counts := l.counts()
	l.Nodes = only.apply(l.Nodes)
	switch {
	case f.json:
		return writeJSON(out, l)
	case f.name == "csv":
		return l.csv(out)
	case f.name == "name":
		var b text.Builder
		for _, n := range l.Nodes {
			b.Printf("%d\n", n.NodeID)
		}
		return say(out, b.Safe())
	}
	return l.print(out, counts, f.name == "wide")
}

// csv prints a line for each node ID, with times as in the JSON.
func (l *listed) csv(out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write([]string{"node_id", "state", "version", "task", "holder", "lease_ms", "expires_at", "not_before", "reserved_until", "retired", "metadata"}); err != nil {
		return err
	}
	for _, n := range l.Nodes {
		row := []string{
			itoa(n.NodeID), string(n.State), itoa(n.Version), n.Task, text.Session(n.Holder), itoa(n.TTL.Milliseconds()),
			stamp(n.ExpiresAt), stamp(n.NotBefore), stamp(n.ReservedUntil), strconv.FormatBool(n.Retired), pairs(withheld(n.Metadata)),
		}
		for i, cell := range row {
			row[i] = text.Cell(cell)
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// pairs formats metadata as name=value, separated by spaces, in the order of the names.
func pairs(metadata map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		parts = append(parts, name+"="+metadata[name])
	}
	return strings.Join(parts, " ")
}

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }
