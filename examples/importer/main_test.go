package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Every row has its own ID, whichever worker assigned it, and the ID can be read back.
func TestEachRowHasItsID(t *testing.T) {
	cfg := config()
	cfg.Pool, cfg.Store = "orders", leasetest.NewMemory("orders", 4)
	agent, err := lease.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	var in strings.Builder
	const rows = 20_000
	for i := range rows {
		fmt.Fprintln(&in, i)
	}
	var out bytes.Buffer
	if err := run(t.Context(), agent, keys["base32"], strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	ids, seen := map[snowflake.ID]bool{}, map[string]bool{}
	for line := range strings.Lines(out.String()) {
		key, row, _ := strings.Cut(line, "\t")
		id, err := snowflake.ParseBase32(key)
		if err != nil || id.Node() != agent.NodeID() {
			t.Fatal(line, id.Node(), err)
		}
		ids[id], seen[row] = true, true
	}
	if len(ids) != rows || len(seen) != rows {
		t.Errorf("%d IDs, %d rows", len(ids), len(seen))
	}
}

// A line that cannot be written or read ends the import.
func TestFailures(t *testing.T) {
	full := errors.New("disk full")
	ids, err := leasefixed.New(1, snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), ids, keys["decimal"], strings.NewReader("a\nb\n"), failing{full}); !errors.Is(err, full) {
		t.Errorf("got %v, want full", err)
	}
	if err := run(t.Context(), ids, keys["decimal"], strings.NewReader(strings.Repeat("a", 100_000)), &bytes.Buffer{}); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("got %v, want ErrTooLong", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lease.ErrLost)
	if err := run(ctx, ids, keys["decimal"], strings.NewReader(""), &bytes.Buffer{}); !errors.Is(err, lease.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}

// An import whose input pauses ends with its context, too.
func TestStopWhileTheInputPauses(t *testing.T) {
	ids, err := leasefixed.New(1, snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, ids, keys["decimal"], in, &bytes.Buffer{}) }()
	if _, err := out.Write([]byte("a\n")); err != nil { // returns when the row was read
		t.Fatal(err)
	}
	cancel(lease.ErrLost)
	select {
	case err := <-ended:
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the import waits for more input")
	}
}

// An import that a signal has cut off is not complete, and lease.Run must not ignore that: it ignores the error of a context that has ended.
func TestASignalIsNoSuccess(t *testing.T) {
	ids, err := leasefixed.New(1, snowflake.Default())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, ids, keys["decimal"], strings.NewReader("a\nb\n"), &bytes.Buffer{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an error that lease.Run returns", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
