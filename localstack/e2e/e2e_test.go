// Package e2e runs the deployed stack through a day of its life, on LocalStack. localstack/test.sh deploys the stack and runs these tests.
package e2e

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

const (
	poolName = "orders"
	size     = 6 // the size with which README.md deploys the stack
)

// patience is how long a test waits for a schedule: at most two minutes, on top of the minute for which the reaper does not free an expired lease.
const patience = 4 * time.Minute

func TestStack(t *testing.T) {
	s := openStack(t, "http://127.0.0.1:"+emulator(t, "stack"), "Nodelease")
	f := newFleet(t, s)

	// CloudFormation had the bootstrap function seed the pool. Invoking the function again, by hand, changes nothing.
	s.wantCapacity(t, size)
	s.invoke(t, "bootstrap", map[string]any{"Pool": poolName, "Size": size})
	s.wantCapacity(t, size)

	// Subscribe before the pool is full. Once the pool is full, the schedule may raise the alarm at any moment, and an alarm sends only one
	// message.
	mail := s.subscribe(t)

	// The pool runs out: every task has a node ID of its own, and the next task is refused because there is none left.
	for range size {
		f.start(t)
	}
	f.wantDistinct(t)
	if _, err := lease.Start(t.Context(), lease.Config{Pool: poolName, Store: s.store}); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Fatalf("one task more than node IDs: got %v, want ErrPoolExhausted", err)
	}
	s.invoke(t, "poolmetric", nil)
	s.wantMetric(t, "Utilization", 100)
	s.wantMetric(t, "Held", size)
	s.wantMetric(t, "Capacity", size)

	// Two tasks die without a release. Their node IDs are not claimed, so only the reaper can free them, and it runs only on its schedule.
	dead := []lease.Lease{f.kill(t), f.kill(t)}
	s.wantAlarm(t, "exhausted", mail)
	for _, old := range dead {
		s.wantReaped(t, old)
	}

	// All tasks stop: none returns an error, and no node ID is left held.
	f.stop(t)
	stats, err := leasepool.Open(s.store, poolName).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Held != 0 || stats.Expired != 0 || len(stats.Corrupt) != 0 {
		t.Errorf("after all tasks have stopped the pool is %+v", stats)
	}
	t.Logf("%d IDs, none twice", len(f.ids))
}

// emulator returns the port of the emulator that localstack/run.sh has started.
func emulator(t *testing.T, step string) (port string) {
	t.Helper()
	if port = os.Getenv("NODELEASE_LOCALSTACK_PORT"); port == "" {
		t.Skip("NOT TESTED on LocalStack: NODELEASE_LOCALSTACK_PORT is not set. To run this test: localstack/test.sh " + step)
	}
	return port
}

// deploy deploys the stack that test.sh deployed once more, with other context values.
func deploy(t *testing.T, port string, context ...string) {
	t.Helper()
	if out, err := tryDeploy(port, "Nodelease", context...); err != nil {
		t.Fatalf("%v: %v\n%s", context, err, out)
	}
}

func tryDeploy(port, stack string, context ...string) (string, error) {
	return cdk(port, "deploy", stack, append(context, "--require-approval=never")...)
}

// cdk runs the CDK command line on one stack, with context values (pool=mail) and options (--force).
func cdk(port, verb, stack string, more ...string) (string, error) {
	args := []string{port, verb, stack, "--exclusively"}
	for _, m := range more {
		if !strings.HasPrefix(m, "--") {
			args = append(args, "-c")
		}
		args = append(args, m)
	}
	out, err := exec.Command("../cdk.sh", args...).CombinedOutput()
	return string(out), err
}

// eventually polls until done reports that another process has done what the test expects.
func eventually(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	begin, last := time.Now(), ""
	for time.Since(begin) < patience {
		ok, state := done()
		if ok {
			t.Logf("%s after %v", what, time.Since(begin).Round(time.Second))
			return
		}
		last = state
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(time.Second):
		}
	}
	t.Fatalf("%s: not within %v; at last: %s", what, patience, last)
}
