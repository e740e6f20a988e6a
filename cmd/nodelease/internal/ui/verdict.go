package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/remedy"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

const (
	// nearlyFull is the share of taken node IDs, in percent, at which the page begins to
	// warn. The utilization alarm has the same default.
	nearlyFull = 80
	// soonFull is the projected time until the pool is full below which the page warns.
	soonFull = time.Hour
	// unmeasuredAfter is how old the pool's measurement may be. The poolmetric function
	// measures every minute, and without measurements no alarm fires.
	unmeasuredAfter = 15 * time.Minute
)

// The levels of a verdict. The page has a colour, a title and an icon for each.
const (
	levelOK   = "ok"
	levelNote = "note" // no task is affected, but an operator should know
	levelWarn = "warn" // tasks may soon be affected
	levelBad  = "bad"  // tasks are affected
)

// verdict is the summary with which the page begins.
type verdict struct {
	Kind     string `json:"kind"`
	Level    string `json:"level"`
	Headline string `json:"headline"`
	Text     string `json:"text"` // its meaning and the remedy
	Command  string `json:"command,omitempty"`
	// Since is when this verdict was first reached, in ms since the Unix epoch. Before
	// reports that the first read reached the verdict, so that the verdict may be older
	// than Since.
	Since  int64 `json:"since,omitempty"`
	Before bool  `json:"before,omitempty"`
}

// trouble is why the pool could not be read.
type trouble struct{ err error }

// judge returns the most urgent verdict on the pool. It judges the holders only if the last
// read succeeded.
func (s *Server) judge(now time.Time) verdict {
	slow := !s.whole && s.reads > 0 && errors.Is(s.failure.err, context.DeadlineExceeded) // the first read takes several turns
	switch {
	case s.failure.err != nil && !slow:
		return s.unreadable(s.failure.err)
	case !s.whole:
		return verdict{Kind: "reading", Level: levelNote, Headline: "Reading the pool …"}
	}
	c := s.model.total
	held, free, cooling, expired := c.of(lease.Held), c.of(lease.Free), c.of(lease.Cooling), c.of(lease.Expired)
	capacity := held + free + cooling + expired
	claimable, first := s.model.reserved(now)
	how, words := remedy.Larger(s.model.pool, 2*max(s.model.pool.Size, 1))
	larger := s.command(cmp.Or(words, "doctor"))
	switch {
	case expired > held && expired > 2:
		return verdict{Kind: "mostly expired", Level: levelBad, Headline: fmt.Sprintf("%s of %s holders have stopped renewing", comma(expired), comma(held+expired)),
			Text: "Either those tasks are gone, or they cannot reach the table. Find out which before anything is freed: tasks that are alive resume by themselves.", Command: s.command("doctor")}
	case capacity == 0:
		return verdict{Kind: "empty", Level: levelBad, Headline: "No node ID can be leased", Text: "Every node ID is retired, excluded, missing or unreadable: no task can start.", Command: s.command("doctor")}
	case free == 0 && claimable == 0:
		v := verdict{Kind: "full", Level: levelBad, Headline: fmt.Sprintf("Full: all %s node IDs are taken", comma(capacity)),
			Text: "New tasks cannot start. Stop tasks that are not needed, or " + how + ".", Command: larger}
		if cooling+expired > 0 {
			v.Text = fmt.Sprintf("New tasks wait: %s held, %s expired, %s cooling. Stop tasks that are not needed, or %s.", comma(held), comma(expired), comma(cooling), how)
		}
		if !first.IsZero() && !s.model.pool.Floor.Before(first) {
			v.Text = fmt.Sprintf("New tasks wait until %s, the floor of the pool. A larger pool has no room sooner, since new node IDs begin at the floor.", first.UTC().Format("Jan 2 15:04:05 UTC"))
			v.Command = "" // Invariant: no advice that does not help
		}
		return v
	case c.of(corrupt) > 0:
		return verdict{Kind: "corrupt", Level: levelWarn, Headline: countOf(c.of(corrupt), "item") + " cannot be read",
			Text: "Another program has written to the table. Leave the items alone; their node IDs are not leased.", Command: s.command("doctor")}
	case c.of(missing) > 0:
		return verdict{Kind: "missing", Level: levelWarn, Headline: countOf(c.of(missing), "node ID") + " not seeded",
			Text: "They have no item, so they cannot be leased; " + remedy.Deleted + ".", Command: s.command(remedy.Seed(s.model.pool))}
	}
	taken := 100 * float64(capacity-free) / float64(capacity)
	full := s.history.fullIn()
	switch {
	case taken >= nearlyFull:
		v := verdict{Kind: "nearly full", Level: levelWarn, Headline: fmt.Sprintf("Nearly full: %s of %s node IDs are free", comma(free), comma(capacity)),
			Text: "A deploy starts new tasks before it stops the old ones, and may not find enough node IDs.", Command: larger}
		if full > 0 {
			v.Text = "Full in about " + about(full) + " at this rate. " + v.Text
		}
		return v
	case full > 0 && full < soonFull:
		return verdict{Kind: "filling", Level: levelWarn, Headline: "Full in about " + about(full) + " at this rate",
			Text: "If this is a deploy, it ends by itself. If tasks keep crashing, their node IDs rest before they can be leased again.", Command: larger}
	case expired > 0:
		return verdict{Kind: "expired", Level: levelWarn, Headline: countOf(expired, "holder") + " stopped renewing",
			Text: "Others can lease these node IDs once the time that their holders reserved has passed."}
	}
	if m := s.model.pool.Measured; m != nil && now.Sub(m.At) > unmeasuredAfter {
		return verdict{Kind: "unmeasured", Level: levelWarn, Headline: "Not measured since " + m.At.UTC().Format("Jan 2 15:04 UTC"),
			Text: "The functions no longer measure this pool, so none of its alarms can go off.", Command: s.command("doctor")}
	}
	return verdict{Kind: "ok", Level: levelOK, Headline: fmt.Sprintf("%s of %s node IDs are free", comma(free), comma(capacity))}
}

// unreadable explains why the pool could not be read, and the remedy.
func (s *Server) unreadable(err error) verdict {
	v := verdict{Kind: "unreadable", Level: levelBad, Headline: "The table cannot be read", Text: text.Error(err), Command: s.command("doctor")}
	switch {
	case errors.Is(err, protocol.ErrPoolNotSeeded):
		v.Kind, v.Headline = "unseeded", "The pool is not seeded"
		v.Command = s.command("seed --size 1024")
	case errors.Is(err, protocol.ErrAccess):
		v.Kind, v.Headline = "denied", "No access to the table"
	}
	return v
}

// command returns a command line for people to copy. It is empty if no command could reach
// the table.
func (s *Server) command(words string) string {
	if s.complete == nil {
		return ""
	}
	return s.complete(words)
}

// decide updates the verdict, and the time since which it has been the same.
func (s *Server) decide(now time.Time) {
	v, old := s.judge(now), s.verdict
	switch {
	case v.Kind == old.Kind:
		v.Since, v.Before = old.Since, old.Before
	case v.Kind != "reading":
		v.Since, v.Before = now.UnixMilli(), old.Kind == "" || old.Kind == "reading"
		// The history records when a bad verdict begins and when it ends.
		if !v.Before && (v.Level == levelBad || old.Level == levelBad) {
			n := news{At: v.Since, NodeID: -1, Kind: v.Kind, Text: v.Headline}
			s.keep(n)
			s.tell(n)
		}
	}
	s.verdict = v
}

// about formats a duration, rounded to one unit.
func about(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", max(1, int(d.Seconds())))
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Round(time.Hour).Hours()))
}

// comma formats n with commas between groups of three digits.
func comma(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// countOf formats a number of things, in the singular or the plural.
func countOf(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return comma(n) + " " + thing + "s"
}
