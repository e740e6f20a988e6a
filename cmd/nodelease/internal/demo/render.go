package demo

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// The colours are the terminal's own sixteen, which the user's terminal theme keeps
// readable. Every state also has a sign, so nobody has to distinguish colours.
var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warn  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	cold  = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
	alarm = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.BrightWhite).Background(lipgloss.Red)
)

// render draws the board into width × height cells.
func (s Snapshot) render(width, height int) string {
	lines := []string{s.title(width), s.progress(width), s.figures(), s.counts(), ""}
	// The events get the space that the grid leaves, but at least a third.
	room := height - len(lines) - 3
	lines = append(lines, s.grid(width, room-max(room/3, 4))...)
	lines = append(lines, s.legend(), "")
	lines = append(lines, s.latest(width, height-len(lines))...)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, width, "…")
	}
	return strings.Join(lines[:min(len(lines), height)], "\n")
}

func (s Snapshot) title(width int) string {
	left := " " + bold.Render("nodelease demo") + faint.Render(fmt.Sprintf("  %s on %s, leases of %v, seed %d", Count(s.Options.Tasks, "task"), Count(s.Options.Size, "node ID"), s.TTL, s.Seed))
	right := fmt.Sprintf("%.1f s of %.0f s ", min(s.Elapsed, s.Duration).Seconds(), s.Duration.Seconds())
	return spread(left, right, width)
}

// spread puts one text at the left end of a line and another at the right end.
func spread(left, right string, width int) string {
	return left + strings.Repeat(" ", max(1, width-lipgloss.Width(left)-lipgloss.Width(right))) + right
}

func (s Snapshot) progress(width int) string {
	full := int(float64(max(0, width-2)) * min(1, s.Elapsed.Seconds()/s.Duration.Seconds()))
	return " " + good.Render(strings.Repeat("━", full)) + faint.Render(strings.Repeat("─", max(0, width-2-full)))
}

func (s Snapshot) figures() string {
	twice := good.Bold(true).Render("0 duplicates")
	if s.Duplicates > 0 {
		twice = alarm.Render(" " + thousands(s.Duplicates) + " DUPLICATES ")
	}
	return fmt.Sprintf(" %s IDs compared   %s   %s a second %s",
		bold.Render(thousands(s.IDs)), twice, bold.Render(thousands(int(s.PerSecond))), cold.Render(sparkline(s.History, 24)))
}

func (s Snapshot) counts() string {
	text := fmt.Sprintf(" %d kill -9   %s   %s   %s   %d suspended   %d lost",
		s.Kills, Count(s.Freezes, "freeze"), Count(s.Claims, "claim"), Count(s.Renewals, "renewal"), s.Suspended, s.Lost)
	if s.PageURL != "" {
		text += "   " + s.PageURL
	}
	if s.Leader != "" {
		text += "   " + s.Leader + " leads"
	}
	if s.Outage {
		return " " + alarm.Render(" DynamoDB IS DOWN ") + faint.Render("  "+text)
	}
	return faint.Render(text)
}

// latest returns as many of the latest events as fit, with the newest at the bottom.
func (s Snapshot) latest(width, room int) []string {
	if room < 2 {
		return nil
	}
	lines := []string{spread(bold.Render(" What just happened"), s.homeless(), width)}
	for _, n := range s.News[max(0, len(s.News)-room+1):] {
		lines = append(lines, fmt.Sprintf(" %s %s %s", faint.Render(fmt.Sprintf("%5.1f s", n.At.Seconds())), newsStyle(n.Kind).Render(fmt.Sprintf("%-9s", n.Kind)), n.Text))
	}
	return lines
}

// homeless lists the tasks that have no node ID.
func (s Snapshot) homeless() string {
	const named = 4
	n := len(s.Homeless)
	switch {
	case n == 0:
		return ""
	case n > named:
		return warn.Render(fmt.Sprintf("without a node ID: %s and %d more ", strings.Join(s.Homeless[:named], ", "), n-named))
	}
	return warn.Render("without a node ID: " + strings.Join(s.Homeless, ", ") + " ")
}

func newsStyle(kind string) lipgloss.Style {
	switch kind {
	case "kill -9", "lost", "ended", "stopped":
		return bad
	case "SIGSTOP", "SIGCONT", "clock", "SIGTERM":
		return cold
	case "suspended", "waiting", "reaped", "no IDs":
		return warn
	case "leads", "claimed", "resumed", "released", "back", "IDs again", "went on":
		return good
	case "outage", "DUPLICATE", "DISORDER":
		return alarm
	}
	return lipgloss.NewStyle()
}

// sparkline draws the last values, scaled to the largest.
func sparkline(values []float64, width int) string {
	values = values[max(0, len(values)-width):]
	most := 1.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[int(v/most*7)])
	}
	return b.String()
}
