package main

import (
	"bufio"
	"fmt"
	"net/http/httptest"
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

// asBroker makes the test's own binary run as the program.
const asBroker = "TEST_AS_BROKER"

func TestMain(m *testing.M) {
	if os.Getenv(asBroker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is one broker, and the lines that it has written.
type process struct {
	*exec.Cmd
	lines chan string
}

// fleet starts brokers on one pool of three node IDs and one store of segments.
type fleet struct {
	t     *testing.T
	env   []string
	store string
}

func (f *fleet) start(name string) *process {
	f.t.Helper()
	p := &process{exec.CommandContext(f.t.Context(), os.Args[0], "-name", name, "-segments", f.store, "-ttl", "2s"), make(chan string, 1000)}
	p.Env = append(os.Environ(), f.env...)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	return p
}

// await reads lines until one contains all texts.
func (f *fleet) await(p *process, texts ...string) string {
	f.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				f.t.Fatalf("%v ended before it wrote %q", p.Args, texts)
			}
			found := 0
			for _, text := range texts {
				if strings.Contains(line, text) {
					found++
				}
			}
			if found == len(texts) {
				return line
			}
		case <-limit:
			f.t.Fatalf("%v wrote nothing with %q", p.Args, texts)
		}
	}
}

// end ends a broker and waits until it is gone.
func (f *fleet) end(p *process, how syscall.Signal) {
	f.t.Helper()
	if err := p.Process.Signal(how); err != nil {
		f.t.Fatal(err)
	}
	if err := p.Wait(); err != nil && how != syscall.SIGKILL {
		f.t.Error(err)
	}
}

// Three brokers run, and one crashes. Its successor on the node ID is ready when the other
// brokers have connected to it. Pending requests of the crashed broker are refused. The
// successor ends cleanly, and the next broker on the node ID has the next version.
func TestThreeBrokers(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "brokers").Seed(t.Context(), leasepool.Spec{Size: 3}); err != nil {
		t.Fatal(err)
	}
	stored := newStore()
	server := httptest.NewServer(stored)
	defer server.Close()
	f := &fleet{t: t, store: server.URL, env: []string{
		asBroker + "=1", "NODELEASE_TABLE=" + table, "NODELEASE_POOL=brokers", "AWS_ENDPOINT_URL_DYNAMODB=" + *client.Options().BaseEndpoint,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1",
	}}
	a, b, c := f.start("a"), f.start("b"), f.start("c")
	for _, p := range []*process{a, b, c} {
		f.await(p, "version 1: ready")
	}
	var node int
	if _, err := fmt.Sscanf(f.await(c, "appended"), "broker %d", &node); err != nil {
		t.Fatal(err)
	}
	f.await(a, "a/1", "b/1", "c/1")
	f.await(b, "a/1", "b/1", "c/1")

	f.end(c, syscall.SIGKILL)
	second := f.start("c")
	f.await(second, fmt.Sprintf("broker %d, version 2: ready", node))
	f.await(a, "c/2")
	f.await(b, "c/2")
	f.await(second, "version 2: appended")
	late := segments{server.URL}.append(t.Context(), node, 1, "the entry that c was about to write")
	if late == nil || !strings.Contains(late.Error(), "409") || !strings.Contains(late.Error(), "has seen version 2") {
		t.Errorf("an append of version 1 after version 2: got %v, want a refusal", late)
	}

	f.end(second, syscall.SIGTERM)
	third := f.start("c")
	f.await(third, fmt.Sprintf("broker %d, version 3: ready", node))
	for _, p := range []*process{a, b, third} {
		f.end(p, syscall.SIGTERM)
	}
	stored.mu.Lock()
	defer stored.mu.Unlock()
	if len(stored.entries) != 3 || stored.highest[node] != 3 {
		t.Errorf("got entries of %d segments and version %d, want 3 and 3", len(stored.entries), stored.highest[node])
	}
}
