package main

import (
	"context"
	"errors"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// live shows the pool on a terminal until ctx ends or somebody presses q.
func (w *watch) live(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Signals are the caller's; the terminal is restored when they end ctx.
	p := tea.NewProgram(screen{pool: w.pool.Name}, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	w.silent = func(o outage) { p.Send(o) }
	looked := make(chan error, 1)
	go func() {
		err := w.lines(ctx, func(l *listed, changes []change) error {
			p.Send(seen{l, changes})
			return nil
		})
		looked <- err
		p.Quit()
	}()
	_, err := p.Run()
	cancel()
	return errors.Join(err, <-looked)
}

// seen is the result of a look.
type seen struct {
	*listed
	changes []change
}

// screen is the model of the live view.
type screen struct {
	outage        outage
	pool          string
	last          *listed
	changes       []change
	width, height int
}

// Init implements [tea.Model].
func (s screen) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case seen:
		const kept = 200
		s.last, s.changes = msg.listed, append(s.changes, msg.changes...)
		s.changes = s.changes[max(0, len(s.changes)-kept):]
	case outage:
		s.outage = msg
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return s, tea.Quit
		}
	}
	return s, nil
}

// View implements [tea.Model].
func (s screen) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	v.WindowTitle = text.Sprintf("nodelease watch %s", s.pool).String()
	v.SetContent(s.render())
	return v
}

// render draws what fits: the counts, the numbers in use, and what happened last.
func (s screen) render() string {
	if s.width == 0 || s.height == 0 {
		return ""
	}
	lines := []string{text.Sprintf("%s%s", bold.of("nodelease watch %s", s.pool), faint.of("   q ends")).String()}
	if !s.outage.over() {
		lines = append(lines, bad.of("%s", s.outage).String())
	}
	if s.last == nil {
		return fitted(append(lines, "looking…"), s.width, s.height)
	}
	lines = append(lines, s.last.counts().String(), bar(s.last.stats(), s.width).String(), "")
	used := &listed{at: s.last.at}
	for _, n := range s.last.Nodes {
		if n.State != lease.Free {
			used.Nodes = append(used.Nodes, n)
		}
	}
	room := s.height - len(lines)
	if n := len(used.Nodes); n > 0 {
		fits := max(1, min(n, room*2/3-2))
		used.Nodes = used.Nodes[:fits]
		lines = append(lines, strings.Split(strings.TrimSuffix(used.sheet(false).text(s.width).String(), "\n"), "\n")...)
		if n > fits {
			lines = append(lines, faint.of("and %d more: nodelease list", n-fits).String())
		}
		lines = append(lines, "")
	}
	room = max(0, s.height-len(lines))
	for _, c := range s.changes[max(0, len(s.changes)-room):] {
		lines = append(lines, c.line().String())
	}
	return fitted(lines, s.width, s.height)
}

// fitted cuts what is too long and too much.
func fitted(lines []string, width, height int) string {
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, width, "…")
	}
	return strings.Join(lines[:min(len(lines), height)], "\n")
}

// stats counts what was seen.
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
