package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// taskArgument is the argument that makes this program a task: a process that reads its table, its pool and the task role's credentials from its
// environment, as on ECS. A task answers each word on standard input with a line of JSON on standard output, and ends when its parent ends.
const taskArgument = "task"

// line is a message of a task.
type line struct {
	NodeID  int            `json:"node_id"`
	Version int64          `json:"version,omitempty"`
	IDs     []snowflake.ID `json:"ids,omitempty"`
	Calls   map[string]int `json:"calls,omitempty"`  // requests by operation
	Denied  []string       `json:"denied,omitempty"` // requests that AWS refused to the role
	Error   string         `json:"error,omitempty"`
	Full    bool           `json:"full,omitempty"` // the task found all node IDs held
}

// recorder counts a client's requests.
type recorder struct {
	mu     sync.Mutex
	calls  map[string]int
	denied []string
}

func (r *recorder) watch(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("verify", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		out middleware.InitializeOutput, metadata middleware.Metadata, err error,
	) {
		out, metadata, err = next.HandleInitialize(ctx, in)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls[awsmiddleware.GetOperationName(ctx)]++
		if denied(err) {
			r.denied = append(r.denied, awsmiddleware.GetOperationName(ctx)+": "+err.Error())
		}
		return out, metadata, err
	}), middleware.After)
}

func (r *recorder) report() line {
	r.mu.Lock()
	defer r.mu.Unlock()
	return line{Calls: maps.Clone(r.calls), Denied: slices.Clone(r.denied)}
}

func taskMain() int {
	out := json.NewEncoder(os.Stdout)
	if err := taskRun(out); err != nil {
		_ = out.Encode(line{NodeID: -1, Error: err.Error(), Full: errors.Is(err, lease.ErrPoolExhausted)})
		return 1
	}
	return 0
}

func taskRun(out *json.Encoder) error {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	seen := &recorder{calls: map[string]int{}}
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.APIOptions = append(o.APIOptions, seen.watch) })
	agent, err := lease.Start(ctx, lease.Config{
		Store:  lease.NewDynamoDB(client, os.Getenv("NODELEASE_TABLE")),
		MaxTTL: lease.DefaultTTL, // leases do not grow, so that the reaper can free them soon
	})
	if err != nil {
		return err
	}
	ids, err := snowflake.New(agent)
	if err != nil {
		return err
	}
	say := func(l line) error {
		held, err := agent.Lease()
		if err != nil {
			return err
		}
		l.NodeID, l.Version = held.NodeID, held.Version
		return out.Encode(l)
	}
	if err := say(line{}); err != nil {
		return err
	}
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() {
		switch words.Text() {
		case "ids":
			l := seen.report()
			for range 1000 {
				id, err := ids.Next()
				if err != nil {
					return err
				}
				l.IDs = append(l.IDs, id)
			}
			if err := say(l); err != nil {
				return err
			}
		case "stop":
			if err := agent.Close(); err != nil {
				return err
			}
			return out.Encode(seen.report())
		}
	}
	return errors.New("the parent is gone") // the task ends without a release, as after a crash
}

// task is the process of a task, as its parent uses it.
type task struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	line    line
}

// startTask starts a task and waits for its first line.
func (r *run) startTask(ctx context.Context) (*task, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	role, err := r.role.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	t := &task{process: exec.Command(self, taskArgument)}
	t.process.Stderr = r.taskLog
	t.process.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_PROFILE=") }),
		"AWS_ACCESS_KEY_ID="+role.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+role.SecretAccessKey, "AWS_SESSION_TOKEN="+role.SessionToken,
		"AWS_REGION="+r.account.region, "NODELEASE_TABLE="+r.table, "NODELEASE_POOL="+poolName)
	if t.in, err = t.process.StdinPipe(); err != nil {
		return nil, err
	}
	pipe, err := t.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = json.NewDecoder(pipe)
	if err := t.process.Start(); err != nil {
		return nil, err
	}
	if err := t.read(); err != nil {
		t.kill()
		return t, err
	}
	r.tasks = append(r.tasks, t)
	return t, nil
}

func (t *task) read() error {
	t.line = line{}
	if err := t.out.Decode(&t.line); err != nil {
		return fmt.Errorf("a task ended without output: %w", err)
	}
	if t.line.Error != "" {
		return errors.New(t.line.Error)
	}
	return nil
}

func (t *task) ask(word string) error {
	if _, err := fmt.Fprintln(t.in, word); err != nil {
		return err
	}
	return t.read()
}

func (t *task) kill() {
	_ = t.process.Process.Kill()
	_ = t.process.Wait() // "signal: killed"
}

// calls returns a text with the number of requests of all tasks, by operation.
func (r *run) calls() string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(r.called)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.called[op], op))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
