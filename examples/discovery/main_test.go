package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// asService makes the test's own binary run as a service.
const asService = "TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a running process, and its output.
type process struct {
	*exec.Cmd
	lines chan string
}

func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{exec.Command(os.Args[0], args...), make(chan string, 10_000)} // more than it says in a minute
	p.Env = append(os.Environ(), append(env, asService+"=1")...)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// says waits until the process has printed a line, and returns the rest.
func (p *process) says(t *testing.T, line string) (rest string) {
	t.Helper()
	limit := time.After(time.Minute)
	var said []string
	for {
		select {
		case l, more := <-p.lines:
			if rest, ok := strings.CutPrefix(l, line); ok {
				return rest
			}
			if said = append(said, l); !more {
				t.Fatalf("the program ended without printing %q: %q", line, said)
			}
		case <-limit:
			t.Fatalf("%q was not printed: %q", line, said)
		}
	}
}

// number waits until a service is registered, and returns its node ID.
func (p *process) number(t *testing.T, service string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(p.says(t, service+" "), "%d is at", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Two services find each other, and callers prefer their own zone. When the instance in that zone is killed, its callers move on to the
// other instance. When the lease of the killed instance has ended, the callers are told. An instance that stops deregisters itself.
func TestServicesFindEachOther(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "shop").Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	env := []string{"NODELEASE_TABLE=" + table, "NODELEASE_POOL=shop", "AWS_ENDPOINT_URL_DYNAMODB=" + *client.Options().BaseEndpoint}

	near := start(t, env, "-name", "stock", "-zone", "a", "-calls", "orders")
	far := start(t, env, "-name", "stock", "-zone", "b", "-calls", "orders")
	a, b := near.number(t, "stock"), far.number(t, "stock")
	orders := start(t, env, "-name", "orders", "-zone", "a", "-calls", "stock")
	answered := fmt.Sprintf("orders %d answered", orders.number(t, "orders"))

	orders.says(t, fmt.Sprintf("stock: %d %d", min(a, b), max(a, b)))
	orders.says(t, fmt.Sprintf("stock %d answered", a))
	near.says(t, answered)
	far.says(t, answered)

	if err := near.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	orders.says(t, fmt.Sprintf("stock %d answered", b))
	orders.says(t, fmt.Sprintf("stock: %d", b))
	if err := far.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	orders.says(t, "stock:")
	for range far.lines { // until the process has ended
	}
	if err := far.Wait(); err != nil {
		t.Error(err)
	}
}
