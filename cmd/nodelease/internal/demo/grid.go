package demo

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
)

// look is how a state of a node ID is shown.
type look struct {
	sign  string
	word  string
	style lipgloss.Style
}

var looks = map[string]look{
	"held":      {"●", "held", good},
	"suspended": {"◐", "suspended", warn},
	"frozen":    {"‖", "frozen", cold},
	"dead":      {"✖", "dead", bad},
	"expired":   {"○", "expired", warn},
	"cooling":   {"◌", "resting", faint},
	"free":      {"·", "free", faint},
}

// inLegend lists the states in the order of the legend.
var inLegend = []string{"held", "suspended", "frozen", "dead", "expired", "cooling", "free"}

func (n NodeID) look() look {
	if l, ok := looks[n.State]; ok {
		return l
	}
	return look{"?", n.State, faint}
}

// rate formats a number of IDs per second in at most five cells.
func rate(perSecond float64) string {
	switch {
	case perSecond < 0.5:
		return ""
	case perSecond < 1000:
		return fmt.Sprintf("%.0f/s", perSecond)
	}
	return fmt.Sprintf("%.0fk/s", perSecond/1000)
}

// legend explains the signs.
func (s Snapshot) legend() string {
	var words []string
	for _, state := range inLegend {
		l := looks[state]
		words = append(words, l.style.Render(l.sign)+" "+faint.Render(l.word))
	}
	return " " + strings.Join(append(words, cold.Render(movedSign)+" "+faint.Render("clock")), "  ")
}

// movedSign marks a node ID whose holder's clock was moved.
const movedSign = "◷"

const (
	cardWidth = 20
	lineWidth = 26
)

// grid draws the node IDs in the richest way that fits: cards, lines, or signs.
func (s Snapshot) grid(width, height int) []string {
	count := len(s.NodeIDs)
	// shape uses the whole width to get few rows, and then no more columns than these rows need.
	shape := func(cell int) (columns, rows int) {
		columns = max(1, width/cell)
		rows = (count + columns - 1) / columns
		return (count + max(rows, 1) - 1) / max(rows, 1), rows
	}
	if columns, rows := shape(cardWidth); 3*rows <= height+1 {
		return tile(s.NodeIDs, columns, NodeID.card)
	}
	if columns, rows := shape(lineWidth); rows <= height {
		return append(tile(s.NodeIDs, columns, NodeID.line), "")
	}
	columns := 64
	for columns+8 > width && columns > 8 {
		columns /= 2
	}
	var lines []string
	for i := 0; i < count; i += columns {
		line := faint.Render(fmt.Sprintf(" %5d ", i))
		for _, n := range s.NodeIDs[i:min(i+columns, count)] {
			l := n.look()
			line += l.style.Render(l.sign)
		}
		lines = append(lines, line)
	}
	return append(lines[:min(len(lines), max(height, 1))], "")
}

// tile puts blocks of equal size side by side.
func tile(nodeIDs []NodeID, columns int, draw func(NodeID) string) []string {
	var lines []string
	for i := 0; i < len(nodeIDs); i += columns {
		var blocks []string
		for _, n := range nodeIDs[i:min(i+columns, len(nodeIDs))] {
			blocks = append(blocks, draw(n))
		}
		lines = append(lines, strings.Split(lipgloss.JoinHorizontal(lipgloss.Top, blocks...), "\n")...)
	}
	return lines
}

// card shows a node ID with everything that is known about it, on two lines and an empty one.
func (n NodeID) card() string {
	l := n.look()
	bar := " " + l.style.Render("┃") + " "
	state := l.word
	if r := rate(n.PerSecond); n.makesIDs() && r != "" {
		state = r
	}
	title := l.style.Bold(true).Render(fmt.Sprintf("%s %d", l.sign, n.Node))
	if n.ClockOff != 0 {
		title += " " + cold.Render(movedSign)
	}
	return bar + spread(title, n.Task, cardWidth-5) + "  \n" +
		bar + spread(l.style.Render("  "+state), faint.Render(n.version()), cardWidth-5) + "  \n"
}

// makesIDs reports whether a node ID's holder may make IDs. A suspended holder may do so
// while it has reserved milliseconds.
func (n NodeID) makesIDs() bool { return n.State == taskHolding || n.State == taskSuspended }

func (n NodeID) version() string {
	if n.Version == 0 {
		return "" // the node ID was never held
	}
	return fmt.Sprintf("v%d", n.Version)
}

// line shows a node ID in one line.
func (n NodeID) line() string {
	l := n.look()
	text := l.style.Render(fmt.Sprintf(" %s %4d", l.sign, n.Node)) + " " + n.Task + " " + faint.Render(n.version())
	if n.makesIDs() {
		text += " " + rate(n.PerSecond)
	}
	return lipgloss.NewStyle().Width(lineWidth).MaxWidth(lineWidth).MaxHeight(1).Render(text)
}
