package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// asService makes the test's own binary run as the service.
const asService = "TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func service(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), append(env, asService+"=1")...)
	command.Stderr = os.Stderr
	return command
}

// The life of a task: it starts, answers, passes its own health check, drains on SIGTERM and leaves its node ID free.
func TestLife(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	store := lease.NewDynamoDB(client, table)
	if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}

	task := service(t, []string{"NODELEASE_TABLE=" + table, "NODELEASE_POOL=orders", "AWS_ENDPOINT_URL_DYNAMODB=" + *client.Options().BaseEndpoint},
		"-listen", "127.0.0.1:0")
	out, err := task.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	defer task.Process.Kill()
	address, nodeID := listening(t, out)

	response, err := http.Post("http://"+address+"/ids?n=500", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		NodeID int            `json:"node_id"`
		IDs    []snowflake.ID `json:"ids"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	seen := map[snowflake.ID]bool{}
	for _, id := range answer.IDs {
		if seen[id] || id.Node() != nodeID {
			t.Errorf("%v of node ID %d among the IDs of %d", id, id.Node(), nodeID)
		}
		seen[id] = true
	}
	if len(seen) != 500 || answer.NodeID != nodeID {
		t.Errorf("%d IDs of node ID %d, want 500 of %d", len(seen), answer.NodeID, nodeID)
	}

	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/ids": 405} {
		if got := status(t, http.MethodGet, "http://"+address+path); got != want {
			t.Errorf("GET %s is %d, want %d", path, got, want)
		}
	}
	for _, n := range []string{"0", "1001", "x"} {
		if got := status(t, http.MethodPost, "http://"+address+"/ids?n="+n); got != 400 {
			t.Errorf("n=%s is %d, want 400", n, got)
		}
	}
	if err := service(t, nil, "-healthcheck", "-listen", address).Run(); err != nil {
		t.Errorf("the health check of a live service: %v", err)
	}

	if err := task.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if err := task.Wait(); err != nil {
		t.Errorf("the service ended with %v\n%s", err, rest)
	}
	free, err := store.Get(t.Context(), "orders", nodeID)
	if err != nil || free.Holder != "" {
		t.Errorf("the node ID is left as %+v (%v)", free, err)
	}
}

func TestHealthCheckOfNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	if err := service(t, nil, "-healthcheck", "-listen", address).Run(); err == nil {
		t.Error("the health check succeeds without a service")
	}
}

// listening reads the service's log until it says where it listens and which node ID it has.
func listening(t *testing.T, log io.Reader) (address string, nodeID int) {
	t.Helper()
	lines := bufio.NewReader(log)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the service ended before it listened: %v", err)
		}
		var line struct {
			Msg, Address string
			NodeID       int `json:"node_id"`
		}
		if json.Unmarshal([]byte(strings.TrimSpace(text)), &line) == nil && line.Msg == "listening" {
			return line.Address, line.NodeID
		}
	}
}

func status(t *testing.T, method, url string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
