package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// watch shows that the table does not answer, for how long, and that it answers again. It
// does not show a short silence. If the output is not a terminal, watch prints two lines
// for an outage, however long the outage lasts.
func TestWatchShowsOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		store := fixture.NewNetwork(1)
		var heard []outage
		var piped bytes.Buffer
		line := outageLine(&piped)
		w := &watch{pool: leasepool.Open(store, "orders"), every: time.Second, length: time.Minute, answers: &answers{}, silent: func(o outage) {
			heard = append(heard, o)
			line(o)
		}}
		for at, away := range map[time.Duration]bool{10 * time.Second: true, 13 * time.Second: false, 20 * time.Second: true, 40 * time.Second: false} {
			time.AfterFunc(at, func() {
				var err error
				if away {
					err = errors.New("away")
				}
				store.SetOutage(err)
			})
		}
		if err := w.lines(t.Context(), func(*listed, []change) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if len(heard) < 10 || heard[0].silence < patience || heard[0].silence > patience+time.Second {
			t.Fatalf("got outages %v, want one per second from %v on", heard, patience)
		}
		for i, o := range heard {
			if last := i == len(heard)-1; o.ended != last || i > 0 && o.silence <= heard[i-1].silence {
				t.Errorf("outage %d of %d is %+v after %+v", i, len(heard), o, heard[max(i-1, 0)])
			}
		}
		if got := piped.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "no answer from the table for 5s") || !strings.Contains(got, "answers again, after ") {
			t.Errorf("got %q, want a line for the outage and one for its end", got)
		}
	})
}

// In an outage, watch --for ends when its time has passed, with an error.
func TestWatchKeepsItsTime(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		store := fixture.NewNetwork(1)
		began := time.Now()
		looks := 0
		a := &answers{}
		w := &watch{pool: leasepool.Open(store, "orders"), every: time.Second, length: time.Minute, answers: a, silent: func(outage) {}}
		time.AfterFunc(20*time.Second, func() {
			a.sent()
			store.SetOutage(errors.New("away"))
		})
		err := w.lines(t.Context(), func(*listed, []change) error { looks++; return nil })
		var silence *silenceError
		if took := time.Since(began); !errors.As(err, &silence) || took != time.Minute || looks < 15 {
			t.Errorf("got %v after %v and %d reads, want no answer after a minute", err, took, looks)
		}
	})
}
