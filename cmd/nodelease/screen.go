package main

import (
	"context"
	"errors"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/nodelease/nodelease/internal/text"
)

// onTerminal reads the pool repeatedly and passes each result to a program that draws the
// whole terminal, until ctx ends or somebody presses q.
func (w *watch) onTerminal(ctx context.Context, model tea.Model, in io.Reader, out io.Writer, message func(*listed, []change) tea.Msg) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The caller handles signals; the terminal is restored when a signal ends ctx.
	p := tea.NewProgram(model, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	w.silent = func(o outage) { p.Send(o) }
	looked := make(chan error, 1)
	go func() {
		err := w.lines(ctx, func(l *listed, changes []change) error {
			p.Send(message(l, changes))
			return nil
		})
		looked <- err
		p.Quit()
	}()
	_, err := p.Run()
	cancel()
	return errors.Join(err, <-looked)
}

// frame is what the full-screen programs share: a title, an outage, and the terminal's
// size.
type frame struct {
	title         text.Safe
	outage        outage
	width, height int
}

// Init implements [tea.Model].
func (f frame) Init() tea.Cmd { return nil }

func (f frame) update(msg tea.Msg) (frame, tea.Cmd) {
	switch msg := msg.(type) {
	case outage:
		f.outage = msg
	case tea.WindowSizeMsg:
		f.width, f.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return f, tea.Quit
		}
	}
	return f, nil
}

func (f frame) view(content string) tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	v.WindowTitle = f.title.String()
	v.SetContent(content)
	return v
}

// head returns the first lines of the screen.
func (f frame) head() []string {
	lines := []string{text.Sprintf("%s%s", bold.of("%s", f.title), faint.of("   q ends")).String()}
	if !f.outage.over() {
		lines = append(lines, bad.of("%s", f.outage).String())
	}
	return lines
}

// fit joins the head and the lines below it, cuts long lines, and drops the lines that do
// not fit.
func (f frame) fit(below ...string) string {
	if f.width == 0 || f.height == 0 {
		return ""
	}
	lines := append(f.head(), below...)
	lines = lines[:min(len(lines), f.height)]
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, f.width, "…")
	}
	return strings.Join(lines, "\n")
}
