package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// asMember makes the test's own binary run as the program.
const asMember = "TEST_AS_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(asMember) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The leader is killed. Then the other member leads, both by state and by lease, and its
// lease has a larger version.
func TestSuccession(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	for pool, size := range map[string]int{"members": 4, "leader": 1} {
		if _, err := leasepool.Open(lease.NewDynamoDB(client, table), pool).Seed(t.Context(), leasepool.Spec{Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(name string) (*exec.Cmd, *lines) {
		t.Helper()
		command := exec.Command(os.Args[0], "-name", name, "-ttl", "4s")
		command.Env = append(os.Environ(), asMember+"=1", "NODELEASE_TABLE="+table, "NODELEASE_POOL=members", "AWS_ENDPOINT_URL_DYNAMODB="+*client.Options().BaseEndpoint,
			"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none")
		command.Stderr = os.Stderr
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
		return command, newLines(out)
	}
	a, said := start("a")
	said.await(t, "a: leader by state is a, of 1", "a: leader by lease, version 1")
	_, saidB := start("b")
	saidB.await(t, "b: leader by state is a, of 2")
	if err := a.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	saidB.await(t, "b: leader by state is b, of 1", "b: leader by lease, version 2")
}

// A standby takes over from a leader that has led for longer than a standby waits at a time.
func TestStandbyOfALongLeader(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		cfg := fixture.Config(leasetest.NewMemory("orders", 1))
		leader := fixture.Start(t, cfg)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- member{name: "standby"}.leadByLease(ctx, cfg) }()
		fixture.Wait(150 * time.Minute)
		if err := leader.Close(); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Minute)
		if l, err := cfg.Store.Get(t.Context(), "orders", 0); err != nil || l.Holder == "" || l.Version != 2 {
			t.Errorf("after a leader that led for 150 minutes, the lease is %+v, %v, want version 2 with a holder", l, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the standby ended with %v, want nil", err)
		}
	})
}

// A standby that loses its lease in an outage, or waits when one begins, stands by after it.
func TestStandbyAfterAnOutage(t *testing.T) {
	for name, waits := range map[string]bool{"it leads": false, "it waits": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				m := leasetest.NewMemory("orders", 1)
				cfg := fixture.Config(m)
				var leader *lease.Agent
				if waits {
					leader = fixture.Start(t, cfg)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- member{name: "standby"}.leadByLease(ctx, cfg) }()
				fixture.Wait(time.Minute)
				m.SetOutage(errors.New("no such host"))
				fixture.Wait(3 * time.Hour)
				m.SetOutage(nil)
				fixture.Wait(time.Minute)
				if waits {
					_ = leader.Close()
				}
				fixture.Wait(time.Hour)
				if l, err := m.Get(t.Context(), "orders", 0); err != nil || l.Holder == "" {
					t.Errorf("after an outage: got the lease %+v, %v, want one that the standby holds", l, err)
				}
				stop()
				if err := <-ended; err != nil {
					t.Errorf("the standby ended with %v, want nil", err)
				}
			})
		})
	}
}

// stopper is a store that calls stop once a claim is written.
type stopper struct {
	lease.Store
	stop func()
}

func (s stopper) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	res, err := s.Store.Write(ctx, w)
	if _, claim := w.(protocol.Claim); claim && err == nil {
		s.stop()
	}
	return res, err
}

// A member that is told to stop just as it gets the lease releases it.
func TestStopAtTheClaim(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		m := leasetest.NewMemory("orders", 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if err := (member{name: "a"}).leadByLease(ctx, fixture.Config(stopper{m, stop})); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		fixture.Wait(time.Minute)
		if l, err := m.Get(t.Context(), "orders", 0); err != nil || l.Version != 1 || l.Holder != "" {
			t.Errorf("a minute later: got the lease %+v, %v, want version 1 without a holder", l, err)
		}
	})
}

// lines collects the output lines of a process, so that a test can await them in any order.
type lines struct {
	scanner *bufio.Scanner
	said    map[string]bool
}

func newLines(r io.Reader) *lines {
	return &lines{bufio.NewScanner(r), map[string]bool{}}
}

func (l *lines) await(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		for !l.said[w] {
			if !l.scanner.Scan() {
				t.Fatalf("the program ended without printing %q; got %v", w, l.said)
			}
			l.said[l.scanner.Text()] = true
		}
	}
}
