package sim

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
)

// record remembers, in a file, which seeds are done: a long run can be stopped and
// goes on where it was. A seed that fails is not in it.
type record struct {
	path  string
	done  map[uint64]bool
	hours float64 // that agents have lived in them
}

const recordHead = "seed\tagent hours\tIDs\tprocesses\tkilled\tdeployments\trequests\tlost\tdone late\trefused\tanswers lost\tclock steps\tpauses\tsuspended\tresumed\tlost leases\ttask hours\tcommit\n"

func openRecord(t *testing.T, path string) *record {
	r := &record{path: path, done: map[uint64]bool{}}
	if path == "" {
		return r
	}
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		text, err = []byte(recordHead), os.WriteFile(path, []byte(recordHead), 0o600)
	}
	if err != nil {
		t.Fatal(err)
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
	pauses := 0
	for _, n := range c.Pauses {
		pauses += n
	}
	_, err = fmt.Fprintf(f, "%d\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%s\n",
		seed, c.Lived.Hours(), c.IDs, c.Processes, c.Kills, c.Deployments, c.Requests, c.RequestsLost, c.Late, c.Refused, c.AnswersLost,
		c.ClockSteps, pauses, c.Events[lease.EventSuspended], c.Events[lease.EventResumed], c.Events[lease.EventLost], *taskHours, *commit)
	if err != nil {
		t.Fatal(err)
	}
}
