package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// fleet is a number of processes of the sample service, as ECS would run them.
type fleet struct {
	stack  *stack
	binary string
	env    []string
	tasks  []*task
	ids    map[snowflake.ID]int // every ID that any task ever made, and the node ID of that task
}

type task struct {
	process *exec.Cmd
	address string
	nodeID  int
}

func newFleet(t *testing.T, s *stack) *fleet {
	t.Helper()
	f := &fleet{stack: s, binary: filepath.Join(t.TempDir(), "service"), ids: map[snowflake.ID]int{}, env: append(os.Environ(),
		"NODELEASE_TABLE="+s.table(t), "NODELEASE_POOL="+poolName, "AWS_ENDPOINT_URL="+s.endpoint)} // what Attach sets, and the endpoint
	build := exec.Command("go", "build", "-o", f.binary, "./examples/service")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		for _, task := range f.tasks {
			_ = task.process.Process.Kill() // tasks that a failed test has left
			_ = task.process.Wait()
		}
	})
	return f
}

// start runs one more task, and returns when the task listens.
func (f *fleet) start(t *testing.T) {
	t.Helper()
	process := exec.Command(f.binary, "-listen", "127.0.0.1:0")
	process.Env, process.Stderr = f.env, os.Stderr
	log, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	task := &task{process: process}
	f.tasks = append(f.tasks, task)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct {
			Msg, Address string
			NodeID       int `json:"node_id"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			task.address, task.nodeID = line.Address, line.NodeID
			go io.Copy(io.Discard, log) // the task must not block on a full pipe
			return
		}
	}
	t.Fatalf("a task ended before it listened: %v", process.Wait())
}

// wantDistinct makes IDs with every task. It fails the test if two tasks have the same node ID, or if an ID was made twice, now or earlier.
func (f *fleet) wantDistinct(t *testing.T) {
	t.Helper()
	owner := map[int]bool{}
	for _, task := range f.tasks {
		if owner[task.nodeID] {
			t.Fatalf("node ID %d has two holders", task.nodeID)
		}
		owner[task.nodeID] = true
		f.makeIDs(t, task)
	}
}

func (f *fleet) makeIDs(t *testing.T, task *task) {
	t.Helper()
	response, err := http.Post(fmt.Sprintf("http://%s/ids?n=1000", task.address), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		IDs []snowflake.ID `json:"ids"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.IDs) != 1000 {
		t.Fatalf("got %d IDs: %v, want 1000", len(answer.IDs), err)
	}
	for _, id := range answer.IDs {
		if by, ok := f.ids[id]; ok {
			t.Fatalf("%v was made twice, by %d and by %d", id, by, task.nodeID)
		}
		f.ids[id] = task.nodeID
	}
}

// kill ends a task without warning, and returns the lease that the task left.
func (f *fleet) kill(t *testing.T) lease.Lease {
	t.Helper()
	task := f.tasks[0]
	f.tasks = f.tasks[1:]
	if err := task.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = task.process.Wait() // "signal: killed"
	left, err := f.stack.store.Get(t.Context(), poolName, task.nodeID)
	if err != nil || left.Holder == "" {
		t.Fatalf("node ID %d is left as %+v (%v)", task.nodeID, left, err)
	}
	return lease.Lease(*left)
}

// stop ends all tasks as ECS does. It fails the test unless each task ends without an error.
func (f *fleet) stop(t *testing.T) {
	t.Helper()
	for _, task := range f.tasks {
		if err := task.process.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, task := range f.tasks {
		if err := task.process.Wait(); err != nil {
			t.Errorf("the task with node ID %d ended with %v", task.nodeID, err)
		}
	}
	f.tasks = nil
}
