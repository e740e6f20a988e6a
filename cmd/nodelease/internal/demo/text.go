package demo

import (
	"fmt"
	"strconv"
	"strings"
)

// thousands formats a count with commas: 12,345,678.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Count formats a number of things: 1 task, 2 tasks.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

// Text returns the summary for people, with colours.
func (s Summary) Text() string {
	twice := good.Bold(true).Render("0 duplicates")
	if s.Duplicates > 0 {
		twice = alarm.Render(thousands(s.Duplicates) + " DUPLICATES")
	}
	outage := ""
	if n := s.WentOn + s.Stopped; n > 0 {
		outage = fmt.Sprintf("of %s in the outage, %d made IDs all the time, %d stopped until it was over\n", Count(n, "task"), s.WentOn, s.Stopped)
	}
	return fmt.Sprintf("%s IDs, each compared with all others: %s\n", bold.Render(thousands(s.IDs)), twice) +
		fmt.Sprintf("%s for %.1f s: %d kill -9, %s longer than a lease, %s, %s, %d suspended, %d lost\n",
			Count(s.Tasks, "task"), s.Seconds, s.Kills, Count(s.Freezes, "freeze"), Count(s.Claims, "claim"), Count(s.Renewals, "renewal"), s.Suspended, s.Lost) + outage
}

// brief cuts an error's text to one line, without the parts that events show anyway.
func brief(text, pool string) string {
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "lease: "), "\n")
	line, _, _ = strings.Cut(strings.TrimPrefix(line, "lost: "), "; ") // the remedy is for the operator of a task
	return strings.ReplaceAll(line, fmt.Sprintf(" of pool %q", pool), "")
}
