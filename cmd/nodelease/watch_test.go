package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
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

// list --watch --json shows the pool's item, and shows it again after a resize.
func TestListWatchShowsThePool(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	defer out.Close()
	root := newRootWith(&globals{})
	root.SetArgs([]string{"list", "--watch", "--every", "100ms", "--json", "--table", w.table, "--pool", "orders", "--endpoint", *client.Options().BaseEndpoint})
	root.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(root.ExecuteContext(ctx), in.Close()) }()
	lists := json.NewDecoder(out)
	for _, size := range []int{2, 4} {
		if _, err := leasepool.Open(lease.NewDynamoDB(client, w.table), "orders").Resize(ctx, leasepool.Spec{Size: size}); err != nil {
			t.Fatal(err)
		}
		for l := (listed{}); l.Pool.Size != size || len(l.Nodes) != size; { // a list may show a part of the resize
			l = listed{}
			if err := lists.Decode(&l); err != nil || l.Pool.Pool != "orders" {
				t.Fatalf("got pool %q of %d node IDs, %v, want orders of %d", l.Pool.Pool, l.Pool.Size, err, size)
			}
		}
	}
	cancel()
	if _, err := io.Copy(io.Discard, io.MultiReader(lists.Buffered(), out)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v after it was stopped, want none", err)
	}
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
