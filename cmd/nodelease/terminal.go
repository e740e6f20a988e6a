package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// The colours are the terminal's own sixteen, which its user has chosen to be
// readable; every colour stands beside a word.
var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warn  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// stateStyle is the colour of a state.
func stateStyle(s lease.State) lipgloss.Style {
	switch s {
	case lease.Held:
		return good
	case lease.Expired:
		return warn
	}
	return faint
}

// say prints text that may have colours: they are left out where out is no
// terminal, and where NO_COLOR is set.
func say(out io.Writer, text string) error {
	_, err := lipgloss.Fprint(out, text)
	return err
}

// widthOf is how many cells a line has; 0 where nobody looks at it, and lines
// may be as long as they like.
func widthOf(out io.Writer) int {
	if !isTerminal(out) {
		return 0
	}
	w, _, err := term.GetSize(out.(*os.File).Fd())
	if err != nil || w < 1 {
		return 80
	}
	return w
}

// sheet is a table for people.
type sheet struct {
	headers []string
	rows    [][]string
	long    int                                  // the column that is cut, at its beginning, where a line is too long
	style   func(row, column int) lipgloss.Style // nil: none
}

// text fits the sheet into width cells; 0 is any width.
func (s sheet) text(width int) string {
	if width > 0 {
		s.fit(width)
	}
	t := table.New().Headers(s.headers...).Rows(s.rows...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			style := lipgloss.NewStyle()
			switch {
			case row == table.HeaderRow:
				style = bold
			case s.style != nil:
				style = s.style(row, column)
			}
			if column < len(s.headers)-1 {
				style = style.PaddingRight(2)
			}
			return style
		})
	var b strings.Builder
	for line := range strings.Lines(t.String() + "\n") {
		line = strings.TrimRight(line, " \n")
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// fit cuts the long column to what the others leave of it.
func (s sheet) fit(width int) {
	room := width
	longest := 0
	for column, header := range s.headers {
		most := lipgloss.Width(header)
		for _, row := range s.rows {
			most = max(most, lipgloss.Width(row[column]))
		}
		if column == s.long {
			longest = most
		} else {
			room -= most
		}
	}
	room = max(room-2*(len(s.headers)-1), 8)
	if longest <= room {
		return
	}
	for _, row := range s.rows {
		if w := lipgloss.Width(row[s.long]); w > room {
			row[s.long] = ansi.TruncateLeft(row[s.long], w-room+1, "…")
		}
	}
}

// distance tells a time by how far it is from now, which is what one wants to know.
func distance(t, now time.Time) string {
	d := t.Sub(now)
	unit := time.Second / 10
	if d.Abs() >= time.Minute {
		unit = time.Second
	}
	switch d = d.Round(unit); {
	case t.IsZero():
		return "-"
	case d == 0:
		return "now"
	case d.Abs() > 48*time.Hour && d < 0:
		return fmt.Sprintf("%d days ago", -d/(24*time.Hour))
	case d.Abs() > 48*time.Hour:
		return fmt.Sprintf("in %d days", d/(24*time.Hour))
	case d < 0:
		return (-d).String() + " ago"
	default:
		return "in " + d.String()
	}
}

// moment is a time with its distance from now.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z") + " (" + distance(t, now) + ")"
}

// progressOn draws a bar on a terminal while a pool's verb is at work, and
// removes it when done is called. Elsewhere it is silent.
func progressOn(out io.Writer, pool *leasepool.Pool, verb string) (done func()) {
	if !isTerminal(out) {
		return func() {}
	}
	const cells = 32
	pool.Progress = func(done, total int) {
		if total < 8 {
			return // it is over before one could read it
		}
		full := cells * done / total
		_ = say(out, fmt.Sprintf("\r%s %s%s %d of %d groups", verb, good.Render(strings.Repeat("━", full)), faint.Render(strings.Repeat("─", cells-full)), done, total))
	}
	return func() { fmt.Fprint(out, "\r"+ansi.EraseLineRight) }
}
