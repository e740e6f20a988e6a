package demo

import (
	"context"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/term"
)

// Live is a view for a terminal: the pool as a grid, and the latest events.
type Live struct {
	In  io.Reader
	Out io.Writer
}

// News implements [View]. It does nothing, since the live view takes the news from the board.
func (Live) News(News) {}

// framesPerSecond is how often the live view is redrawn.
const framesPerSecond = 10

// Run implements [View]. It returns ErrInterrupted on Ctrl-C, and nil on q.
func (l Live) Run(ctx context.Context, b *Board) error {
	// The caller handles signals; when it ends ctx, the terminal is restored.
	p := tea.NewProgram(screen{board: b}, tea.WithInput(l.In), tea.WithOutput(l.Out), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	last, err := p.Run()
	if s, ok := last.(screen); ok && s.interrupted {
		return ErrInterrupted
	}
	return err
}

// Last prints the last frame below the terminal's earlier content, where it remains.
func (l Live) Last(b *Board) error {
	width, height := 80, 24
	if f, ok := l.Out.(*os.File); ok {
		if w, h, err := term.GetSize(f.Fd()); err == nil && w > 0 {
			width, height = w, h
		}
	}
	const below = 12 // lines for the summary
	_, err := lipgloss.Fprintln(l.Out, b.snapshot().render(width, max(height-below, 12)))
	return err
}

// screen is the model of the live view.
type screen struct {
	board         *Board
	width, height int
	interrupted   bool
}

type tick time.Time

func (s screen) tick() tea.Msg { return tick(time.Now()) }

// Init implements [tea.Model].
func (s screen) Init() tea.Cmd { return s.tick }

// Update implements [tea.Model].
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		return s, tea.Tick(time.Second/framesPerSecond, func(at time.Time) tea.Msg { return tick(at) })
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c":
			s.interrupted = true
			return s, tea.Quit
		case "q", "esc":
			return s, tea.Quit
		}
	}
	return s, nil
}

// View implements [tea.Model].
func (s screen) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	v.WindowTitle = "nodelease demo"
	if s.width > 0 {
		v.SetContent(s.board.snapshot().render(s.width, s.height))
	}
	return v
}
