package main

import (
	"context"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// live shows the pool on a terminal until ctx ends or somebody presses q.
func (w *watch) live(ctx context.Context, in io.Reader, out io.Writer) error {
	s := screen{frame: frame{title: text.Sprintf("nodelease watch %s", w.pool.Name)}}
	return w.onTerminal(ctx, s, in, out, func(l *listed, changes []change) tea.Msg { return seen{l, changes} })
}

// seen is the result of a read.
type seen struct {
	*listed
	changes []change
}

// screen is the model of the live view.
type screen struct {
	frame
	last    *listed
	changes []change
}

// Update implements [tea.Model].
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if msg, ok := msg.(seen); ok {
		const kept = 200
		s.last, s.changes = msg.listed, append(s.changes, msg.changes...)
		s.changes = s.changes[max(0, len(s.changes)-kept):]
	}
	var cmd tea.Cmd
	s.frame, cmd = s.update(msg)
	return s, cmd
}

// View implements [tea.Model].
func (s screen) View() tea.View { return s.view(s.render()) }

// render draws as much as fits of the counts, the node IDs in use, and the latest
// changes.
func (s screen) render() string {
	if s.width == 0 || s.last == nil {
		return s.fit("looking…")
	}
	var lines []string
	lines = append(lines, s.last.counts().String(), bar(s.last.stats(), s.width).String(), "")
	used := &listed{at: s.last.at}
	for _, n := range s.last.Nodes {
		if n.State != lease.Free {
			used.Nodes = append(used.Nodes, n)
		}
	}
	above := len(s.head())
	room := s.height - above - len(lines)
	if n := len(used.Nodes); n > 0 {
		fits := max(1, min(n, room*2/3-2))
		used.Nodes = used.Nodes[:fits]
		lines = append(lines, strings.Split(strings.TrimSuffix(used.sheet(false).text(s.width).String(), "\n"), "\n")...)
		if n > fits {
			lines = append(lines, faint.of("and %d more: run nodelease list", n-fits).String())
		}
		lines = append(lines, "")
	}
	room = max(0, s.height-above-len(lines))
	for _, c := range s.changes[max(0, len(s.changes)-room):] {
		lines = append(lines, c.line().String())
	}
	return s.fit(lines...)
}

// stats counts the node IDs of the last read.
func (l *listed) stats() (s leasepool.Stats) {
	for _, n := range l.Nodes {
		switch n.State {
		case lease.Held:
			s.Held++
		case lease.Expired:
			s.Expired++
		case lease.Cooling:
			s.Cooling++
		case lease.Free:
			s.Free++
		}
	}
	s.Capacity = s.Held + s.Expired + s.Cooling + s.Free
	return s
}
