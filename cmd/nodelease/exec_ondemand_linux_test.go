package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/cmd/nodelease/internal/supervise"
	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// ownerOfStubborn is the argument that makes this test binary start a program that ignores
// SIGTERM, and then end that program at once.
const ownerOfStubborn = "owner-of-stubborn"

func init() {
	if len(os.Args) == 3 && os.Args[1] == ownerOfStubborn {
		self, _ := os.Executable()
		child, err := supervise.Start(self, supervise.Spec{Args: []string{self, testChild, os.Args[2], "parent"}, Env: environment(lease.Lease{Version: 1}, ""), Grace: time.Hour, Left: supervise.Forever})
		if err != nil {
			os.Exit(97)
		}
		bufio.NewReader(os.Stdin).ReadString('\n') // the test sends a line when the program is to end
		child.End()
		if _, stopped, err := child.Wait(); !stopped || err != nil {
			os.Exit(96)
		}
		os.Exit(8)
	}
}

// tally records the requests of a pool's holders.
type tally struct {
	mu       sync.Mutex
	requests []string
	writes   chan time.Time // when each write was seen
}

// tallied creates a table with a pool of one node ID, and counts the requests from then on.
func tallied(t *testing.T) (flags []string, n *tally) {
	t.Helper()
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n = &tally{writes: make(chan time.Time, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, what, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		n.mu.Lock()
		n.requests = append(n.requests, what)
		n.mu.Unlock()
		if what == "UpdateItem" {
			n.writes <- time.Now()
		}
		db.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.Close(); db.Close() })
	if err := demo.CreateTable(t.Context(), server.URL, "leases"); err != nil {
		t.Fatal(err)
	}
	flags = []string{"--endpoint", server.URL, "--table", "leases", "--pool", "orders"}
	if code, _, stderr := call(append([]string{"seed", "--size", "1"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	n.taken()
	for len(n.writes) > 0 {
		<-n.writes
	}
	return flags, n
}

// taken returns the requests since its last call. They are sorted, since exec sends some of
// them at the same time.
func (n *tally) taken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.requests
	n.requests = nil
	slices.Sort(r)
	return r
}

// shortOnDemand are flags for leases on demand that are renewed and end within a test.
var shortOnDemand = []string{"--on-demand", "--ttl", "10s", "--guard", "500ms", "--claim-guard", "500ms", "--grace", "1s"}

// A program that ends while more than a third of its lease is left costs a read, a claim
// and a release. A program that is killed together with its exec costs only the read and
// the claim.
func TestExecOnDemandRequests(t *testing.T) {
	t.Parallel()
	flags, n := tallied(t)
	p := start(t, self(append(append([]string{"exec", "--on-demand"}, flags...), "--", "sh", "-c", "echo $NODELEASE_NODE_ID $NODELEASE_VERSION $NODELEASE_POOL; exit 7")...))
	if out, code := p.end(t); out != "0 1 orders\n" || code != 7 || p.stderr.String() != "" {
		t.Errorf("exit code %d, %q, want 7 and the environment: %s", code, out, p.stderr)
	}
	look, claim := []string{"DescribeTable", "GetItem"}, "UpdateItem"
	release := []string{"GetItem", "UpdateItem"} // the note is read in case a claimant waits
	if got := n.taken(); !slices.Equal(got, slices.Sorted(slices.Values(slices.Concat(look, release, []string{claim})))) {
		t.Errorf("got the requests %v of a short program, want a search, a claim and a release", got)
	}
	if state, _ := holder(t, flags); state != "" {
		t.Errorf("the node ID is %s, want it free", state)
	}
	n.taken()

	s := newStage(t)
	p = execOf(t, append([]string{"--on-demand"}, flags...), s, "obey")
	a := s.enter(t)
	if got := n.taken(); !slices.Equal(got, append(slices.Clone(look), claim)) {
		t.Errorf("the requests of a running program: %v", got)
	}
	if state, expires := holder(t, flags); state != "held" || time.Until(expires) > onDemandTTL {
		t.Errorf("the node ID is %s until %v, want it held for one TTL at most", state, expires)
	}
	n.taken()
	send(t, p.Process.Pid, syscall.SIGKILL)
	a.end(t)
	p.end(t)
	if got := n.taken(); len(got) != 0 {
		t.Errorf("after SIGKILL: got the requests %v, want none", got)
	}
}

// A program that lives on has its lease renewed when less than a third is left, and
// then keeps it.
func TestExecOnDemandRenews(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	flags, n := tallied(t)
	s := newStage(t)
	// Several seconds pass between the renewal and SIGTERM, which is enough on a busy
	// machine.
	p := execOf(t, append([]string{"--on-demand", "--ttl", "20s", "--grace", "1s"}, flags...), s, "obey")
	a := s.enter(t)
	claimed := <-n.writes
	for range 2 { // the second renewal comes only if the program was not ended after the first
		select {
		case renewed := <-n.writes:
			if after := renewed.Sub(claimed); after < 6*time.Second {
				t.Errorf("a write %v after the last one", after)
			}
			claimed = renewed
		case <-time.After(hang):
			t.Fatalf("want a renewal: %s", p.stderr)
		}
	}
	send(t, p.Process.Pid, syscall.SIGTERM)
	a.end(t)
	if _, code := p.end(t); code != 7 {
		t.Errorf("exit code %d, want 7: %s", code, p.stderr)
	}
	if state, _ := holder(t, flags); state != "" {
		t.Errorf("the node ID is %s, want it free", state)
	}
}

// No program continues with a node ID that another process may have, whichever process is
// frozen, and even in an outage. All cases run side by side.
func TestExecOnDemandDeadline(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	type scene struct {
		name, mode   string
		self, outage bool

		program *program
		actor   *actor
		flags   []string
		out     func(bool)
		expires time.Time
	}
	scenes := []*scene{
		{name: "frozen exec", mode: "stubborn", self: true},
		{name: "outage", mode: "stubborn", outage: true},
	}
	for _, s := range scenes {
		stage := newStage(t)
		s.flags, s.out = breakable(t, 1)
		s.program = execOf(t, append(slices.Clone(shortOnDemand), s.flags...), stage, s.mode)
		s.actor = stage.enter(t)
		if s.self {
			send(t, s.program.Process.Pid, syscall.SIGSTOP)
		}
		_, s.expires = holder(t, s.flags)
		s.out(s.outage)
	}
	for _, s := range scenes {
		s.actor.end(t)
		if s.actor.lastAlive.After(s.expires.Add(10 * time.Second)) {
			t.Errorf("%s: alive at %v, the lease expired at %v", s.name, s.actor.lastAlive, s.expires)
		}
		if s.self {
			send(t, s.program.Process.Pid, syscall.SIGCONT)
		}
		s.out(false)
		if _, code := s.program.end(t); code != 117 || !strings.Contains(s.program.stderr.String(), "was ended, since its lease on node 0 of pool orders was lost or not renewed in time") {
			t.Errorf("%s: exit code %d, %s", s.name, code, s.program.stderr)
		}
	}
}

// If the whole machine on which a program runs is paused, and another process has the node ID
// by the time the machine resumes, the program ends and the other process keeps the node ID.
func TestExecOnDemandThaw(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	flags, s := onePool(t), newStage(t)
	p := execOf(t, append(slices.Clone(shortOnDemand), flags...), s, "stubborn")
	a := s.enter(t)
	all := []int{p.Process.Pid, a.parent, a.pid}
	for _, pid := range all {
		send(t, pid, syscall.SIGSTOP)
	}
	other := execOf(t, append([]string{"--wait", "1h"}, flags...), s, "obey")
	b := s.enter(t)
	for _, pid := range all {
		send(t, pid, syscall.SIGCONT)
	}
	a.end(t)
	if _, code := p.end(t); code != 117 {
		t.Errorf("exit code %d, want 117: %s", code, p.stderr)
	}
	if state, _ := holder(t, flags); state != "held" {
		t.Errorf("the node ID of the other process is %q", state)
	}
	send(t, other.Process.Pid, syscall.SIGTERM)
	b.end(t)
	if _, code := other.end(t); code != 7 {
		t.Errorf("exit code %d, want 7: %s", code, other.stderr)
	}
}

// When an operator frees the node ID by force, the next renewal is refused, and the program
// gets SIGTERM. exec claims no other node ID, since the program would not learn about it.
func TestExecOnDemandLost(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	flags, s := onePool(t), newStage(t)
	p := execOf(t, append(slices.Clone(shortOnDemand), flags...), s, "obey")
	a := s.enter(t)
	if code, _, stderr := call(append([]string{"release", "0", "--yes", "--version", "1"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	a.end(t)
	if _, code := p.end(t); code != 117 {
		t.Errorf("exit code %d, want 117: %s", code, p.stderr)
	}
	if state, _ := holder(t, flags); state == "held" { // cooling after the release by force
		t.Errorf("the node ID is %s, want it not held", state)
	}
}

// A pause that only the wall clock shows ends the program, without a request.
func TestExecOnDemandWallClock(t *testing.T) {
	t.Parallel()
	clock, store := leasetest.NewClock(0), leasetest.NewMemory("orders", 1)
	resumed := make(chan struct{}, 100)
	o, err := startOnDemand(t.Context(), lease.Config{Pool: "orders", Store: store, Clock: clock, TTL: 30 * time.Second, OnEvent: func(e lease.Event) {
		if e.Kind == lease.EventRenewed || e.Kind == lease.EventResumed {
			resumed <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if o.Left() <= 0 || o.overdue() {
		t.Errorf("got %v left, want some", o.Left())
	}
	another := onDemand{agent: o.agent, held: o.held}
	another.held.Version++
	if left := another.Left(); left != 0 {
		t.Errorf("%v left of the lease of another holder", left)
	}
	clock.Step(time.Hour)
	select {
	case <-o.Done():
	case <-resumed:
		t.Fatal("an expired lease was resumed")
	}
	if !o.overdue() || !errors.Is(o.Err(), lease.ErrSuspended) {
		t.Errorf("overdue: got %v, %v, want true and ErrSuspended", o.overdue(), o.Err())
	}
	if l, err := store.Get(t.Context(), "orders", 0); err != nil || l.Renewal != 0 || l.Version != 1 {
		t.Errorf("got %+v %v, want Renewal 0 and Version 1", l, err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// A program whose lease has run out is killed at once, with its own children, even if the
// deadline that its guardian was given is far in the future.
func TestExecEndsWithoutGrace(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := self(ownerOfStubborn, s.Addr().String())
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	owner := start(t, p)
	a, b := s.enter(t), s.enter(t)
	fmt.Fprintln(in)
	a.end(t)
	b.end(t)
	if _, code := owner.end(t); code != 8 {
		t.Errorf("exit code %d, want 8: %s", code, owner.stderr)
	}
}

func TestExecOnDemandUsage(t *testing.T) {
	for _, test := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--max-ttl", "15m"}, "--max-ttl 15m0s: an on-demand lease never grows: leave --max-ttl out, or --on-demand"},
		{[]string{"--max-reserve", "2h"}, "--max-reserve 2h0m0s: an on-demand lease never grows: leave --max-reserve out, or --on-demand"},
		{[]string{"--renew-every", "5s"}, "--renew-every 5s: an on-demand lease has no heartbeat"},
		{[]string{"--grace", "2m"}, "--grace 2m0s: use up to 1m8s"},
		{[]string{"--guard", "100s"}, "--guard 1m40s leaves no time to renew: with --on-demand and --ttl 5m0s use less than 1m10s"},
		{[]string{"--ttl", "0s"}, "--ttl 0s: use 5s to 24h"},
		{[]string{"--fixed", "7", "--layout", "default"}, "--fixed and --on-demand contradict each other"},
		{[]string{"--layout", "default"}, "--layout is for --fixed"},
	} {
		t.Run(strings.Join(test.flags, " "), func(t *testing.T) {
			code, _, stderr := call(append(append([]string{"exec", "--on-demand"}, test.flags...), "--", "true")...)
			if code != 112 || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, want 112 and the flag: %s", code, stderr)
			}
		})
	}
}
