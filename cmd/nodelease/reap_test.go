package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// reap clears the entries of a process that is gone, as the reaper function does. A dry run
// changes nothing.
func TestReapClearsEntries(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	store := lease.NewDynamoDB(w, w.table)
	directory, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(w, w.table)})
	if err != nil {
		t.Fatal(err)
	}
	agent, err := lease.Start(t.Context(), lease.Config{Store: store, Pool: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	here := discovery.Address{Host: "10.0.0.7"}
	if err := directory.Register(t.Context(), agent, discovery.Service{Name: "orders", Address: here}, discovery.Endpoint{Name: "shard", Address: here}); err != nil {
		t.Fatal(err)
	}
	none := "0 node IDs held, 0 due, 0 freed\n"
	for _, step := range []struct{ args, want string }{
		{"reap", "1 node ID held, 0 due, 0 freed\n"},
		{"reap --dry-run", none},
		{"reap --dry-run --json", `"cleared":0`},
		{"reap", none + "2 entries of dead processes cleared in the services\n"},
		{"reap", none},
		{"reap --json", `"cleared":0`},
	} {
		words := append(strings.Fields(step.args), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")
		code, stdout, stderr := call(words...)
		if code != 0 || stdout != step.want && !(strings.Contains(step.args, "json") && strings.Contains(stdout, step.want)) {
			t.Errorf("%s: exit code %d, %q, want %q; %s", step.args, code, stdout, step.want, stderr)
		}
		_ = agent.Close()
	}
}

// reap shows which node IDs it has freed, and what it could not compare, even if the entries of services
// cannot be cleared.
func TestReapReportsBeforeItFails(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 4)
	hour := time.Now().Add(-time.Hour)
	w.put(number(1, hour, nil))
	w.put(number(2, hour.Add(90*time.Minute), nil))
	args := []string{"reap", "--yes", "--no-wait", "--table", w.table, "--pool", "orders", "--endpoint"}
	if code, _, stderr := call(append(args, *client.Options().BaseEndpoint)...); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	store := lease.NewDynamoDB(client, w.table)
	m, err := store.ReaperMemory(t.Context(), "orders")
	if err == nil {
		m.Look.Ended = m.Look.Ended.Add(-time.Hour)
		_, err = store.WriteReaperMemory(t.Context(), protocol.Remember{Pool: "orders", Seen: m.Revision, New: "later", Look: m.Look})
	}
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(*client.Options().BaseEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	onward := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		query := strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Query")
		if text := string(body); query && (strings.Contains(text, "orders#registered") || strings.Contains(text, "orders#reaper")) {
			w.WriteHeader(400)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"User: me is not authorized"}`))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		onward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	code, stdout, stderr := call(append(args, proxy.URL)...)
	if code != codeError || stdout != "2 node IDs held, 1 due, 1 freed; due: node ID 1\n" || !strings.Contains(stderr, "forged items may not be noticed") {
		t.Errorf("exit code %d, %q, want %d and what was freed; %q, want a warning", code, stdout, codeError, stderr)
	}
}

// reap waits between its scans and prints why it waits. A braked reaper scans three times.
func TestReapLooksAgain(t *testing.T) {
	for crashed, want := range map[int][]string{
		1:  {"1 due; next scan in 40s"},
		12: {"12 due; next scan in 40s", "12 due, so many that their holders may be about to renew: next scan in 40s"},
	} {
		fixture.Virtual(t, func(t *testing.T) {
			s := leasetest.NewMemory("orders", 20)
			fixture.Hold(t, s, 19, time.Now(), 10*time.Hour)
			for n := range crashed {
				fixture.Hold(t, s, n, time.Now(), 15*time.Second)
			}
			fixture.Wait(2 * time.Minute)
			var out strings.Builder
			pool := leasepool.Open(s, "orders")
			pool.Logger = slog.New(slog.DiscardHandler)
			began := time.Now()
			r, err := lookAgain(t.Context(), &out, &asking{pool: pool})
			if err != nil || len(r.Freed) != crashed || time.Since(began) != time.Duration(len(want))*40*time.Second {
				t.Errorf("%+v, %v after %v, want %d freed after %d waits of 40 s", r, err, time.Since(began), crashed, len(want))
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			for i, line := range want {
				if len(lines) != len(want) || !strings.HasPrefix(lines[i], line) {
					t.Fatalf("got %q, want %q", lines, want)
				}
			}
		})
	}
}

// reap asks about each lease that it frees, also about those that become due while it waits
// for the answer, which a reaper function scans meanwhile, and between its own scans.
func TestReapAsksAboutLaterLeases(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 20)
		fixture.Hold(t, s, 19, time.Now(), 10*time.Hour)
		fixture.Hold(t, s, 1, time.Now(), 15*time.Second)
		fixture.Hold(t, s, 2, time.Now(), 2*time.Minute)
		fixture.Wait(2 * time.Minute)
		pool := leasepool.Open(s, "orders")
		var asked []int
		a := &asking{pool: pool, ask: func(due []int) error {
			asked = append(asked, due...)
			if len(asked) == 1 {
				fixture.Wait(80 * time.Second)
				if _, err := pool.Reap(t.Context()); err != nil { // the function
					t.Error(err)
				}
				fixture.Wait(50 * time.Second)
			}
			return nil
		}}
		r, err := lookAgain(t.Context(), io.Discard, a)
		if err != nil || !slices.Equal(r.Freed, []int{1, 2}) || !slices.Equal(asked, r.Freed) {
			t.Errorf("got %v freed, %v, and asked about %v, want 1 and 2, and asked about both", r.Freed, err, asked)
		}
	})
}

// Without --no-wait, reap waits until the second scan.
func TestReapWaits(t *testing.T) {
	t.Parallel()
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	w.put(number(1, time.Now().Add(-time.Hour), nil))
	cmd := self("reap", "--yes", "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	launch(t, cmd)
	leavesNothing(t, cmd)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "1 due; next scan in 40s") {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if _ = cmd.Wait(); !strings.HasPrefix(last, "nodelease: interrupt signal received") || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%q, exit code %d, want the signal, and 1", last, cmd.ProcessState.ExitCode())
	}
}

// If reap is interrupted while it waits, it frees nothing, and a later run continues.
func TestReapInterrupted(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := leasetest.NewMemory("orders", 20)
		fixture.Hold(t, s, 19, time.Now(), 10*time.Hour)
		fixture.Hold(t, s, 1, time.Now(), 15*time.Second)
		fixture.Wait(2 * time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, err := lookAgain(ctx, io.Discard, &asking{pool: leasepool.Open(s, "orders")}); !errors.Is(err, context.DeadlineExceeded) || len(r.Freed) != 0 {
			t.Errorf("interrupted: %+v, %v, want nothing freed", r, err)
		}
		fixture.Wait(39 * time.Second)
		if r, err := lookAgain(t.Context(), io.Discard, &asking{pool: leasepool.Open(s, "orders")}); err != nil || len(r.Freed) != 1 {
			t.Errorf("%+v, %v, want one freed", r, err)
		}
	})
}
