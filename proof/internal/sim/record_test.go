package sim

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
)

// record is a file with the seeds that are done, so that a long run can be stopped and
// continued later. Seeds that fail are not recorded.
type record struct {
	path  string
	done  map[uint64]bool
	hours float64 // the total of their agent hours
}

// columns are the columns of a record after the seed, in order. Only the first of them is
// read back.
var columns = []struct {
	name string
	of   func(Counts) any
}{
	{"agent hours", func(c Counts) any { return fmt.Sprintf("%.1f", c.Lived.Hours()) }},
	{"IDs", func(c Counts) any { return c.IDs }},
	{"processes", func(c Counts) any { return c.Processes }},
	{"killed", func(c Counts) any { return c.Kills }},
	{"deployments", func(c Counts) any { return c.Deployments }},
	{"copies", func(c Counts) any { return c.Copies }},
	{"renewals", func(c Counts) any { return c.Events[lease.EventRenewed] }},
	{"changes of hands", func(c Counts) any { return c.Events[lease.EventClaimed] }},
	{"resized", func(c Counts) any { return c.Resized }},
	{"widths", func(c Counts) any { return c.Widths }},
	{"raised", func(c Counts) any { return c.Raised }},
	{"forced", func(c Counts) any { return c.Forced }},
	{"reaped", func(c Counts) any { return c.Reaped }},
	{"requests", func(c Counts) any { return c.Requests }},
	{"lost", func(c Counts) any { return c.RequestsLost }},
	{"done late", func(c Counts) any { return c.Late }},
	{"refused", func(c Counts) any { return c.Refused }},
	{"answers lost", func(c Counts) any { return c.AnswersLost }},
	{"garbled", func(c Counts) any { return c.Garbage }},
	{"replayed", func(c Counts) any { return c.Replays }},
	{"corrupted", func(c Counts) any { return c.Corrupted }},
	{"other layouts", func(c Counts) any { return c.Unfit }},
	{"clock steps", func(c Counts) any { return c.ClockSteps }},
	{"glitches", func(c Counts) any { return c.Glitches }},
	{"pauses", func(c Counts) any { return sum(c.Pauses) }},
	{"suspended", func(c Counts) any { return c.Events[lease.EventSuspended] }},
	{"resumed", func(c Counts) any { return c.Events[lease.EventResumed] }},
	{"lost leases", func(c Counts) any { return c.Events[lease.EventLost] }},
	{"grown renewals", func(c Counts) any { return c.Grown }},
	{"after 10 min", func(c Counts) any { return c.Rested }},
	{"on grown leases", func(c Counts) any { return list(c.OnGrown) }},
	{"batches", func(c Counts) any { return c.Batches }},
	{"states of clusters", func(c Counts) any { return c.States }},
	{"resolved", func(c Counts) any { return c.Resolved }},
	{"task hours", func(Counts) any { return *taskHours }},
	{"commit", func(Counts) any { return *commit }},
	{"grown", func(Counts) any { return *grown }},
	{"parts", func(Counts) any { return *partList }}, // empty if each seed draws its own parts
}

// sum returns the sum of a map's values.
func sum(m map[string]int) (n int) {
	for _, some := range m {
		n += some
	}
	return n
}

// recordHead returns a record's first line.
func recordHead() string {
	head := "seed"
	for _, c := range columns {
		head += "\t" + c.name
	}
	return head + "\n"
}

func openRecord(t *testing.T, path string) *record {
	r := &record{path: path, done: map[uint64]bool{}}
	if path == "" {
		return r
	}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		text, err = []byte(recordHead()), os.WriteFile(path, []byte(recordHead()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if head, _, _ := strings.Cut(string(text), "\n"); head+"\n" != recordHead() {
		t.Fatalf("-record %s: its columns are not those of today: begin another record", path)
	}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		var seed uint64
		var hours float64
		if _, err := fmt.Sscan(lines.Text(), &seed, &hours); err == nil {
			r.done[seed] = true
			r.hours += hours
		}
	}
	return r
}

func (r *record) has(seed uint64) bool { return r.done[seed] }

func (r *record) add(t *testing.T, seed uint64, c Counts) {
	if r.path == "" || t.Failed() {
		return
	}
	f, err := os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := fmt.Sprint(seed)
	for _, column := range columns {
		line += fmt.Sprintf("\t%v", column.of(c))
	}
	_, err = fmt.Fprintln(f, line)
	if err != nil {
		t.Fatal(err)
	}
}
