package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// follow shows the list again and again: on a terminal in place, elsewhere each
// time that it says something else.
func (f filter) follow(cmd *cobra.Command, g *globals, pool *leasepool.Pool, as form, every time.Duration) error {
	out := cmd.OutOrStdout()
	w := &watch{pool: pool, every: every, answers: &g.answers, silent: outageLine(cmd.ErrOrStderr())}
	if isTerminal(cmd.InOrStdin()) && isTerminal(out) && os.Getenv("TERM") != "dumb" && as.name != "csv" && as.name != "name" && !as.json {
		return f.page(cmd.Context(), w, as, cmd.InOrStdin(), out)
	}
	before := ""
	return w.lines(cmd.Context(), func(l *listed, _ []change) error {
		// What only counts down is no change.
		if now := f.essence(l); now == before {
			return nil
		} else {
			before = now
		}
		return as.write(out, l, f)
	})
}

// essence is what a list says apart from how far its times are from now.
func (f filter) essence(l *listed) string {
	var b strings.Builder
	shown := &listed{Pool: l.Pool, Nodes: f.apply(append([]listedNode(nil), l.Nodes...)), Corrupt: l.Corrupt}
	for i := range shown.Nodes {
		n := &shown.Nodes[i]
		if n.Holder != "" { // each renewal moves these
			n.Renewal, n.ExpiresAt, n.ReservedUntil = 0, time.Time{}, time.Time{}
		}
	}
	_ = text.WriteJSON(&b, shown)
	return b.String()
}

// page shows the list on the terminal until ctx ends or somebody presses q.
func (f filter) page(ctx context.Context, w *watch, as form, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(paper{title: "nodelease list " + w.pool.Name}, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	w.silent = func(o outage) { p.Send(o) }
	looked := make(chan error, 1)
	go func() {
		err := w.lines(ctx, func(l *listed, _ []change) error {
			p.Send(drawnOf(l, f, as))
			return nil
		})
		looked <- err
		p.Quit()
	}()
	_, err := p.Run()
	cancel()
	return errors.Join(err, <-looked)
}

// drawn is a list to be drawn in whatever width there is.
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
	title         string
	outage        outage
	draw          drawn
	width, height int
}

// Init implements [tea.Model].
func (p paper) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (p paper) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case drawn:
		p.draw = msg
	case outage:
		p.outage = msg
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return p, tea.Quit
		}
	}
	return p, nil
}

// View implements [tea.Model].
func (p paper) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	v.WindowTitle = text.Line(p.title)
	v.SetContent(p.render())
	return v
}

func (p paper) render() string {
	if p.width == 0 || p.height == 0 {
		return ""
	}
	lines := []string{text.Sprintf("%s%s", bold.of("%s", p.title), faint.of("   q ends")).String()}
	if !p.outage.over() {
		lines = append(lines, bad.of("%s", p.outage).String())
	}
	if p.draw == nil {
		return fitted(append(lines, "reading…"), p.width, p.height)
	}
	all := strings.Split(strings.TrimSuffix(p.draw(p.width), "\n"), "\n")
	if room := p.height - len(lines) - 1; len(all) > room && room > 0 {
		all = append(all[:room], faint.of("and %d more: --state, --task and --metadata choose", len(all)-room).String())
	}
	return fitted(append(lines, all...), p.width, p.height)
}
