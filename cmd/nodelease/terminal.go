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

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// The colours are the terminal's own sixteen, which the user's terminal theme keeps
// readable. Nothing is shown by colour alone.
var (
	none  = ink{lipgloss.NewStyle()}
	bold  = ink{lipgloss.NewStyle().Bold(true)}
	faint = ink{lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)}
	good  = ink{lipgloss.NewStyle().Foreground(lipgloss.Green)}
	warn  = ink{lipgloss.NewStyle().Foreground(lipgloss.Yellow)}
	bad   = ink{lipgloss.NewStyle().Foreground(lipgloss.Red)}
)

// ink is a colour for text that may be shown.
type ink struct{ style lipgloss.Style }

// of returns the arguments as [text.Sprintf] formats them, in the ink's colour.
func (i ink) of(format string, args ...any) text.Safe {
	return text.Trusted(i.style.Render(text.Sprintf(format, args...).String()))
}

// stateInk returns the colour of a state.
func stateInk(s lease.State) ink {
	switch s {
	case lease.Held:
		return good
	case lease.Expired:
		return warn
	}
	return faint
}

// say prints text that may have colours, and drops the colours where out is not a
// terminal or NO_COLOR is set. All output of this program goes through say or writeJSON;
// the type text.Safe proves that the text has been sanitized.
func say(out io.Writer, s text.Safe) error {
	_, err := lipgloss.Fprint(out, s.String())
	return err
}

// writeJSON prints the result of a command as one line.
func writeJSON(w io.Writer, v any) error { return text.WriteJSON(w, v) }

// folded breaks a line that is longer than the terminal between words. It indents the
// continuation lines by indent cells, so that no part of a value looks like a new line.
func folded(out io.Writer, line text.Safe, indent int) text.Safe {
	width := widthOf(out)
	if width == 0 || lipgloss.Width(line.String()) <= width {
		return line
	}
	indent = min(indent, width/2)
	var b strings.Builder
	room := width
	for i, word := range strings.Split(line.String(), " ") {
		if i > 0 && ansi.StringWidth(word)+1 <= room {
			b.WriteString(" ")
			room--
		} else if i > 0 {
			b.WriteString("\n" + strings.Repeat(" ", indent))
			room = width - indent
		}
		for w := ansi.StringWidth(word); w > room; w = ansi.StringWidth(word) {
			// Invariant (liveness): each pass shortens the word. A character of two cells does not fit
			// into a line of one.
			if ansi.StringWidth(ansi.Truncate(word, room, "")) == 0 {
				break
			}
			b.WriteString(ansi.Truncate(word, room, "") + "\n" + strings.Repeat(" ", indent))
			word = ansi.TruncateLeft(word, room, "")
			room = width - indent
		}
		b.WriteString(word)
		room -= ansi.StringWidth(word)
	}
	return text.Trusted(b.String())
}

// widthOf returns the width of the terminal in cells. It returns 0 if the output is not a
// terminal, because lines may then have any length.
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
	long    int                       // column whose beginning is cut off if a line is too long
	ink     func(row, column int) ink // colour of a cell; nil: no colours
}

// text fits the sheet into width cells; 0 means any width. It sanitizes every cell.
func (s sheet) text(width int) text.Safe {
	for _, row := range s.rows {
		for column, cell := range row {
			row[column] = text.Line(cell)
		}
	}
	if width > 0 {
		s.fit(width)
	}
	t := table.New().Headers(s.headers...).Rows(s.rows...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			style := lipgloss.NewStyle()
			switch {
			case row == table.HeaderRow:
				style = bold.style
			case s.ink != nil:
				style = s.ink(row, column).style
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
	return text.Trusted(b.String())
}

// fit cuts the long column to the width that the other columns leave.
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

// distance formats a time as its distance from now.
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

// moment formats a time with its distance from now.
func moment(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z") + " (" + distance(t, now) + ")"
}

// count formats a number of things, in the singular or the plural.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// progressOn draws a progress bar on a terminal while a pool's verb is at work, and
// removes it when done is called. Elsewhere it prints nothing.
func progressOn(out io.Writer, pool *leasepool.Pool, verb string) (done func()) {
	if !isTerminal(out) {
		return func() {}
	}
	const cells = 32
	pool.Progress = func(done, total int) {
		if total < 8 {
			return // too short to be read
		}
		full := cells * done / total
		_ = say(out, text.Sprintf("\r%s %s%s %d of %d groups", verb, good.of("%s", strings.Repeat("━", full)), faint.of("%s", strings.Repeat("─", cells-full)), done, total))
	}
	return func() { _ = say(out, text.Trusted("\r"+ansi.EraseLineRight)) }
}
