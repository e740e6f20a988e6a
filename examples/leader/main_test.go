package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

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
