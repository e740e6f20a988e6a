package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Counts contains the number of events of each kind in a world.
type Counts struct {
	Processes, Kills, Deployments, ClockSteps, Reaped, Resized, Forced, Closed int
	Seeded, Raised, Measured, Glitches, Copies, Corrupted, Unfit, Poisoned     int
	Requests, RequestsLost, AnswersLost, Refused, Late, SentLate               int
	Garbage, Replays, Batches, States, Resolved, Stale                         int
	OldCards, LateCards, Abroad                                                int
	Widths                                                                     int // how many different widths node IDs have had
	Grown, Rested                                                              int // renewals for more than the TTL; claims of node IDs that had been reserved for 10 min
	IDs, Fenced                                                                int
	Lived                                                                      time.Duration // the sum over all agents of the time from start to end
	Events                                                                     map[lease.EventKind]int
	Starts                                                                     map[string]int
	OnGrown                                                                    map[string]int // the number of events of each kind for leases that had grown
	Pauses                                                                     map[string]int
}

func newCounts() Counts {
	return Counts{Events: map[lease.EventKind]int{}, Starts: map[string]int{}, OnGrown: map[string]int{}, Pauses: map[string]int{}}
}

// count calls change with the counts locked.
func (w *World) count(change func(*Counts)) {
	w.counting.Lock()
	defer w.counting.Unlock()
	change(&w.counts)
}

// Add adds the counts of o.
func (c *Counts) Add(o Counts) {
	for _, p := range [][2]*int{
		{&c.Processes, &o.Processes}, {&c.Kills, &o.Kills}, {&c.Deployments, &o.Deployments}, {&c.ClockSteps, &o.ClockSteps}, {&c.Reaped, &o.Reaped},
		{&c.Resized, &o.Resized}, {&c.Forced, &o.Forced}, {&c.Closed, &o.Closed}, {&c.Requests, &o.Requests}, {&c.RequestsLost, &o.RequestsLost},
		{&c.AnswersLost, &o.AnswersLost}, {&c.Refused, &o.Refused}, {&c.Late, &o.Late}, {&c.SentLate, &o.SentLate}, {&c.IDs, &o.IDs}, {&c.Fenced, &o.Fenced}, {&c.Widths, &o.Widths}, {&c.Grown, &o.Grown}, {&c.Rested, &o.Rested},
		{&c.Seeded, &o.Seeded}, {&c.Raised, &o.Raised}, {&c.Measured, &o.Measured}, {&c.Glitches, &o.Glitches}, {&c.Copies, &o.Copies},
		{&c.Corrupted, &o.Corrupted}, {&c.Unfit, &o.Unfit}, {&c.Poisoned, &o.Poisoned}, {&c.Garbage, &o.Garbage}, {&c.Replays, &o.Replays}, {&c.Batches, &o.Batches},
		{&c.States, &o.States}, {&c.Resolved, &o.Resolved}, {&c.Stale, &o.Stale},
		{&c.OldCards, &o.OldCards}, {&c.LateCards, &o.LateCards}, {&c.Abroad, &o.Abroad},
	} {
		*p[0] += *p[1]
	}
	c.Lived += o.Lived
	for k, n := range o.Events {
		c.Events[k] += n
	}
	for k, n := range o.Starts {
		c.Starts[k] += n
	}
	for k, n := range o.OnGrown {
		c.OnGrown[k] += n
	}
	for k, n := range o.Pauses {
		c.Pauses[k] += n
	}
}

func (c Counts) String() string {
	return fmt.Sprintf("%.1f agent hours: %d IDs, %d fenced calls; %d processes (starts: %s), %d killed, %d deployments, %d closed; "+
		"%d requests: %d lost, %d done late, %d sent late, %d refused, %d answers lost; %d clock steps; pauses: %s; %d reaped, %d resized, %d forced; %d widths; %d grown renewals, %d claims of node IDs reserved for 10 min, on grown leases: %s; "+
		"%d seeded again, %d raised, %d measured, %d glitches, %d copies, %d corrupted, %d refused another layout, %d garbled, %d replayed, %d batches, %d states, %d resolved, %d old answers, %d old cards, %d cards written late, %d refused in another Region; events: %s",
		c.Lived.Hours(), c.IDs, c.Fenced, c.Processes, list(c.Starts), c.Kills, c.Deployments, c.Closed,
		c.Requests, c.RequestsLost, c.Late, c.SentLate, c.Refused, c.AnswersLost, c.ClockSteps, list(c.Pauses), c.Reaped, c.Resized, c.Forced, c.Widths, c.Grown, c.Rested, list(c.OnGrown),
		c.Seeded, c.Raised, c.Measured, c.Glitches, c.Copies, c.Corrupted, c.Unfit, c.Garbage, c.Replays, c.Batches, c.States, c.Resolved, c.Stale, c.OldCards, c.LateCards, c.Abroad, list(c.Events))
}

func list[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
