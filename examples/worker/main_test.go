package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// virtual runs a test in virtual time, which passes when all goroutines wait. Virtual time begins in 2000, but IDs begin in 2025, so
// virtual first sleeps until 2026.
func virtual(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // virtual
		test(t)
	})
}

func config(store lease.Store) lease.Config {
	return lease.Config{Pool: "orders", Store: store, Logger: slog.New(slog.DiscardHandler)}
}

// In an outage of DynamoDB for ten minutes, the current job waits. It gets its ID after the outage, and the node ID is still the same.
func TestOutage(t *testing.T) {
	virtual(t, func(t *testing.T) {
		store := leasetest.NewMemory("orders", 1)
		happened := make(chan lease.Event, 1000)
		cfg := config(store)
		cfg.OnEvent = func(e lease.Event) { happened <- e }
		agent, err := lease.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if e := await(happened, lease.EventClaimed); e.Left <= 0 || e.Left > lease.DefaultTTL {
			t.Errorf("%v left of a new lease", e.Left)
		}
		jobs, ended := make(chan string), make(chan error, 1)
		said, out := io.Pipe()
		go func() { ended <- work(t.Context(), agent, jobs, out) }()
		id := func(job string) (id snowflake.ID) {
			if _, err := fmt.Fscanf(said, "worker 0 did job "+job+" as %v\n", (*int64)(&id)); err != nil {
				t.Error(err)
			}
			return id
		}
		jobs <- "a"
		if first := id(`"a"`); first.Sequence() != 0 {
			t.Errorf("ID %d has sequence %d in its millisecond, want 0", first, first.Sequence())
		}

		store.SetOutage(errors.New("no such host"))
		away := await(happened, lease.EventSuspended)
		jobs <- "b"
		time.Sleep(10 * time.Minute) // virtual
		store.SetOutage(nil)
		if second := id(`"b"`); second.Time().Before(away.Time.Add(10 * time.Minute)) {
			t.Errorf("an ID of %v, though the lease could not be held from %v on", second.Time(), away.Time)
		}
		close(jobs)
		if err := errors.Join(<-ended, agent.Close()); err != nil {
			t.Error(err)
		}
		if e := await(happened, lease.EventReleased); e.IDs.Issued != 2 {
			t.Errorf("got %d IDs, want 2", e.IDs.Issued)
		}
	})
}

func await(happened <-chan lease.Event, kind lease.EventKind) lease.Event {
	for e := range happened {
		if e.Kind == kind {
			return e
		}
	}
	panic("the channel is never closed")
}

// Starts that fail return an error that states what to do.
func TestExplain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		store := leasetest.NewMemory("orders", 1)
		clock := leasetest.NewClock(-time.Hour)
		clock.Step(time.Hour) // the clock was repaired before the start
		repaired := config(store)
		repaired.Clock = clock
		agent, err := lease.Start(t.Context(), repaired)
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		_, full := lease.Start(t.Context(), config(store))
		for err, want := range map[error]string{
			full:                 "none of 1 node IDs of orders is free; if a worker has crashed, start again in 16s",
			lease.ErrClockBehind: "is this machine's clock correct?",
		} {
			if got := fmt.Sprint(explain(err)); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// A job that is too long is an error: the jobs after it are not done, and the process must not end as if they were.
func TestLongJob(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\n": "[a b] <nil>",
		"a\n" + strings.Repeat("b", 70_000) + "\nc\n": "[a] a job of more than 65536 bytes, and none after it was done: split it: bufio.Scanner: token too long",
	} {
		jobs, failed := lines(strings.NewReader(in))
		var done []string
		for job := range jobs {
			done = append(done, job)
		}
		if got := fmt.Sprint(done, <-failed); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Operators see the events that stop jobs, and how many events were dropped.
func TestNotice(t *testing.T) {
	var out strings.Builder
	for _, e := range []lease.Event{{Kind: lease.EventSuspended, IDsLeft: time.Hour}, {Kind: lease.EventSuspended}, {Kind: lease.EventRenewed}, {Kind: lease.EventResumed}, {Kind: lease.EventDropped, Dropped: 3}} {
		notice(&out, e)
	}
	if want := "DynamoDB does not answer: jobs continue for 1h0m0s\njobs wait: DynamoDB does not answer\njobs continue\n3 events were not printed: this program was too slow\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
