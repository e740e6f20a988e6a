package snowflake

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// stepped is a clock whose wall steps; waits move it.
type stepped struct {
	wall time.Time
	mono time.Duration
}

func (c *stepped) Wall() time.Time          { return c.wall }
func (c *stepped) Monotonic() time.Duration { return c.mono }
func (c *stepped) Sleep(d time.Duration)    { c.wall, c.mono = c.wall.Add(d), c.mono+d }

// The wall clock steps back during the first run of a process with a fixed node
// ID, and never between its runs. The second run makes no ID of the first again.
func TestFixedRunsMakeNoIDTwice(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, 1500 * time.Millisecond} {
		clock := &stepped{wall: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
		seen := map[ID]bool{}
		for run := range 2 {
			clock.mono = 0
			g, err := New(fixedOn(clock, 7), WithMaxBackward(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 1000 {
				if run == 0 && i == 500 {
					clock.wall = clock.wall.Add(-step)
				}
				clock.Sleep(time.Millisecond)
				id, err := g.Next()
				if seen[id] {
					t.Fatalf("a step of %v: run %d made ID %d of %v again", step, run, id, id.Time())
				}
				var behind *ClockError
				if err != nil && !errors.As(err, &behind) {
					t.Fatalf("a step of %v: got %v, want an ID or a ClockError", step, err)
				}
				seen[id] = err == nil
			}
			if borrow := g.Stats().Borrow; borrow != 0 {
				t.Errorf("a step of %v: got stamps %v ahead of the wall clock, want none", step, borrow)
			}
			clock.Sleep(time.Millisecond)
		}
	}
}

func TestOrdinal(t *testing.T) {
	for host, want := range map[string]int{
		"orders-0": 0, "orders-7": 7, "my-orders-12": 12, "orders-65535": 65535, "o-10.orders.prod.svc.cluster.local": 10,
		"orders2-3": 3, "orders-2-3": 3, "orders-v1-2-3": 3,
	} {
		if got, err := ordinal(host); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", host, got, err, want)
		}
	}
	for _, host := range []string{
		"", "orders", "orders-", "-7", "7", "orders7", "orders-07", "orders-00", "orders-7x", "orders--", "orders-65536", "orders-100000", "orders-+7",
		"ip-10-0-1-25", "ip-10-0-1-25.eu-west-1.compute.internal", "10-0-1-25",
		"orders-7d4b9c6f5d-24568", "orders-7d4b9c6f-x2v7q", "3f2b1c0d9e8f", "Orders-7", "orders-7\n", "orders_7",
	} {
		if n, err := ordinal(host); err == nil || !strings.HasPrefix(err.Error(), "snowflake: ") {
			t.Errorf("%q: %d, %v, want an error", host, n, err)
		}
	}
}

// The text names the host and the ways out.
func TestOrdinalError(t *testing.T) {
	_, err := ordinal("worker")
	for _, part := range []string{`"worker"`, "StatefulSet", "Fixed", "lease"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

func TestStatefulSet(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	n, err := StatefulSet()
	if want, noOrdinal := ordinal(host); noOrdinal != nil {
		if err == nil || err.Error() != noOrdinal.Error() {
			t.Errorf("%v, want %v", err, noOrdinal)
		}
	} else if g, err := New(n); err != nil {
		t.Error(err)
	} else if id, err := g.Next(); err != nil || id.Node() != want {
		t.Errorf("node %d, want %d, %v", id.Node(), want, err)
	}
}
