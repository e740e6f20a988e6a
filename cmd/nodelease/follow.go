package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// follow shows the list repeatedly: on a terminal it redraws the list in place, elsewhere
// it prints the list whenever its contents change.
func (f filter) follow(cmd *cobra.Command, g *globals, pool *leasepool.Pool, read itemReader, as form, every time.Duration) error {
	out := cmd.OutOrStdout()
	w := &watch{pool: pool, item: read, every: every, answers: &g.answers, doctor: g.again("doctor"), silent: outageLine(cmd.ErrOrStderr())}
	if isTerminal(cmd.InOrStdin()) && isTerminal(out) && os.Getenv("TERM") != "dumb" && as.name != "csv" && as.name != "name" && !as.json {
		return f.page(cmd.Context(), w, as, cmd.InOrStdin(), out)
	}
	before := ""
	return w.lines(cmd.Context(), func(l *listed, _ []change) error {
		// A countdown alone is not a change.
		if now := f.essence(l); now == before {
			return nil
		} else {
			before = now
		}
		return as.write(out, l, f)
	})
}

// essence returns the text of a list without relative times, which change with each read.
func (f filter) essence(l *listed) string {
	var b strings.Builder
	pool := l.Pool
	pool.Verdict, pool.Measured = nil, nil // they are renewed while nothing changes
	shown := &listed{Pool: pool, Nodes: f.apply(append([]listedNode(nil), l.Nodes...)), Corrupt: l.Corrupt}
	for i := range shown.Nodes {
		n := &shown.Nodes[i]
		if n.Holder != "" { // each renewal changes these times
			n.Renewal, n.ExpiresAt, n.ReservedUntil, n.IDsUntil = 0, time.Time{}, time.Time{}, time.Time{}
		}
	}
	_ = text.WriteJSON(&b, shown)
	return b.String()
}

// page shows the list on the terminal until ctx ends or somebody presses q.
func (f filter) page(ctx context.Context, w *watch, as form, in io.Reader, out io.Writer) error {
	p := paper{frame: frame{title: text.Sprintf("nodelease list %s", w.pool.Name)}}
	return w.onTerminal(ctx, p, in, out, func(l *listed, _ []change) tea.Msg { return drawnOf(l, f, as) })
}

// drawn draws a list at the given width.
type drawn func(width int) string

func drawnOf(l *listed, f filter, as form) drawn {
	counts := l.counts()
	l = &listed{Pool: l.Pool, Nodes: f.apply(append([]listedNode(nil), l.Nodes...)), Corrupt: l.Corrupt, at: l.at}
	return func(width int) string {
		var b bytes.Buffer
		b.WriteString(counts.String() + "\n")
		if len(l.Nodes) > 0 {
			b.WriteString(l.sheet(as.name == "wide").text(width).String())
		}
		return b.String()
	}
}

// paper is the model of list --watch.
type paper struct {
	frame
	draw drawn
}

// Update implements [tea.Model].
func (p paper) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if draw, ok := msg.(drawn); ok {
		p.draw = draw
	}
	var cmd tea.Cmd
	p.frame, cmd = p.update(msg)
	return p, cmd
}

// View implements [tea.Model].
func (p paper) View() tea.View { return p.view(p.render()) }

func (p paper) render() string {
	if p.draw == nil {
		return p.fit("reading…")
	}
	all := strings.Split(strings.TrimSuffix(p.draw(p.width), "\n"), "\n")
	if room := p.height - len(p.head()) - 1; len(all) > room && room > 0 {
		all = append(all[:room], faint.of("and %d more: narrow the list with --state, --task or --metadata", len(all)-room).String())
	}
	return p.fit(all...)
}
