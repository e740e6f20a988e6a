package rie_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/functions/internal/rie"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// made is the answer of examples/lambda.
type made struct {
	IDs     []snowflake.ID `json:"ids"`
	NodeID  int            `json:"node_id"`
	Version int64          `json:"version"`
}

// environment returns the process of a function. It looks for the executable, since the
// arguments of the emulator name the same binary.
func environment(t *testing.T, binary string) *os.Process {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range all {
		if exe, err := os.Readlink(link); err == nil && exe == binary {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			p, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatalf("no process of %s is running", binary)
	return nil
}

func signal(t *testing.T, p *os.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// runOut waits until the lease of a node ID and its reservation have run out.
func runOut(t *testing.T, s lease.Store, node int) {
	t.Helper()
	for {
		l, err := s.Get(t.Context(), "orders", node)
		if err != nil || l == nil {
			t.Fatal(l, err)
		}
		left := time.Until(protocol.Latest(l.ExpiresAt, l.ReservedUntil).Add(protocolSlack))
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

const protocolSlack = time.Second // at least the claimants' guard

// A function's process is frozen for longer than its lease, between two invocations and
// during one. It makes no ID twice: it resumes if its node ID was not taken, and otherwise
// claims another.
func TestFunctionThatIsFrozen(t *testing.T) {
	w := run(t, "../examples/lambda", func(env []string) []string { return append(env, "NODELEASE_POOL=orders", "LEASE_TTL=5s") })
	if _, err := w.send(t, `{"count":1}`); err == nil || !strings.Contains(err.Error(), "seed it") {
		t.Errorf("without a pool: got %v, want the remedy", err)
	}
	if _, err := w.pool.Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	seen := map[snowflake.ID]bool{}
	decode := func(out []byte, err error) (m made) {
		t.Helper()
		if err == nil {
			err = json.Unmarshal(out, &m)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, w.log)
		}
		for _, id := range m.IDs {
			if seen[id] {
				t.Errorf("ID %d was made twice", id)
			}
			seen[id] = true
		}
		return m
	}
	first := decode(w.send(t, `{"count":100}`)) // it now works without a new deployment
	function := environment(t, w.binary)

	signal(t, function, syscall.SIGSTOP)
	runOut(t, w.store, first.NodeID)
	signal(t, function, syscall.SIGCONT)
	again := decode(w.send(t, `{"count":100}`))
	if again.NodeID != first.NodeID || again.Version != first.Version {
		t.Errorf("after a freeze, with its node ID free: got node %d version %d, want %d and %d", again.NodeID, again.Version, first.NodeID, first.Version)
	}

	// Freeze the process during an invocation, while another environment takes the expired node ID.
	answer := make(chan struct {
		out []byte
		err error
	}, 1)
	go func() {
		out, err := w.Invoke(t.Context(), []byte(`{"count":100000}`))
		answer <- struct {
			out []byte
			err error
		}{out, err}
	}()
	signal(t, function, syscall.SIGSTOP)
	runOut(t, w.store, again.NodeID)
	now := time.Now()
	res, err := w.store.Write(t.Context(), protocol.Claim{
		Key: protocol.Key{Pool: "orders", NodeID: again.NodeID}, Session: "another", Task: "another environment", At: now, ClaimGuard: time.Second,
		TTL: time.Minute, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute + time.Second), OnDemand: true,
	})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
	taken := time.Now()
	signal(t, function, syscall.SIGCONT)
	a := <-answer
	if a.err != nil && strings.Contains(a.err.Error(), "fenced") {
		a.out, a.err = w.send(t, `{"count":100}`) // the process was frozen between the check of its lease and its first ID; the next invocation renews
	}
	inside := decode(a.out, a.err)
	if inside.NodeID == again.NodeID {
		t.Errorf("after its node ID was taken: got node %d again", inside.NodeID)
	}
	for _, id := range inside.IDs {
		if id.Node() == again.NodeID && id.Time().After(taken) {
			t.Fatalf("ID %d has the lost node ID and a millisecond of its next holder", id)
		}
	}

	// A second, concurrent environment never shares its node ID.
	other, err := rie.Start(t.Context(), w.emulator, w.binary, w.env, w.log)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 20 {
		mine, theirs := decode(w.send(t, `{"count":50}`)), decode(other.Invoke(t.Context(), []byte(`{"count":50}`)))
		if mine.NodeID == theirs.NodeID {
			t.Fatalf("two environments hold node %d", mine.NodeID)
		}
	}
}

// TestColdStartOnDemand measures the time that a node ID adds to a cold start on this machine,
// where a request takes almost no time. It compares environments that lease a node ID with
// environments that answer without one.
func TestColdStartOnDemand(t *testing.T) {
	const starts = 9
	w := run(t, "../examples/lambda", func(env []string) []string { return append(env, "NODELEASE_POOL=orders") })
	if _, err := w.pool.Seed(t.Context(), leasepool.Spec{Size: 64}); err != nil {
		t.Fatal(err)
	}
	median := map[bool]time.Duration{}
	for _, leases := range []bool{false, true} {
		event := map[bool]string{false: `{"count":0}`, true: `{"count":1}`}[leases] // a count of 0 is refused without asking for an ID
		var took []time.Duration
		for range starts {
			began := time.Now()
			f, err := rie.Start(t.Context(), w.emulator, w.binary, w.env, w.log)
			if err != nil {
				t.Fatal(err)
			}
			first := w.Function
			w.Function = f
			if _, err := w.send(t, event); (err == nil) != leases {
				t.Errorf("%s: got the error %v\n%s", event, err, w.log)
			}
			took = append(took, time.Since(began))
			w.Function = first
			f.Close()
		}
		slices.Sort(took)
		median[leases] = took[starts/2]
		t.Logf("leases %v: %v from its start to its first answer, the median of %d (%v to %v)", leases, took[starts/2].Round(time.Millisecond), starts,
			took[0].Round(time.Millisecond), took[starts-1].Round(time.Millisecond))
	}
	t.Logf("a node ID adds %v", (median[true] - median[false]).Round(time.Millisecond))
	if median[true] > 10*time.Second {
		t.Errorf("a start takes %v, limit 10 s", median[true])
	}
}
