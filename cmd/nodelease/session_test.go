package main

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The sessions in testdata are what a user types and sees. They run the program itself on
// an embedded DynamoDB in this process, which has the table leases. In addition to
// testscript's own commands, they can use these commands:
//
//	exits CODE command…             runs a command that ends with this exit code
//	hold NODE TASK DISTANCE [LIB]   makes a lease of the pool orders that expires DISTANCE from now
//	corrupt NODE                    breaks the item of a node ID
//	later DISTANCE                  makes the reaper's last scan of the pool orders older by DISTANCE
func TestSessions(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			server, err := embeddeddb.New(embeddeddb.Options{})
			if err != nil {
				return err
			}
			e.Defer(func() { server.Close() })
			endpoint, err := server.Listen("127.0.0.1:0")
			if err != nil {
				return err
			}
			if err := demo.CreateTable(context.Background(), endpoint, "leases"); err != nil {
				return err
			}
			e.Setenv("ENDPOINT", endpoint)
			e.Setenv("TLSENDPOINT", strings.Replace(endpoint, "http:", "https:", 1))
			e.Setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
			e.Setenv("NODELEASE_TABLE", "leases")
			e.Setenv("NODELEASE_POOL", "orders")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "hold": hold, "corrupt": corrupt, "later": later,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command…")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func hold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: hold NODE TASK DISTANCE [LIB]")
	}
	node, err := strconv.Atoi(args[0])
	ts.Check(err)
	distance, err := time.ParseDuration(args[2])
	ts.Check(err)
	more := map[string]any{"task": args[1]}
	if len(args) > 3 {
		more["metadata"] = map[string]string{"lib": args[3]}
	}
	write(ts, number(node, time.Now().Add(distance), more))
}

func corrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: corrupt NODE")
	}
	node, err := strconv.Atoi(args[0])
	ts.Check(err)
	write(ts, map[string]any{"pool_group": "orders#0", "node_id": node, "version": "three"})
}

// later moves the reaper's last scan into the past, so that a session does not have to wait
// between two scans. TestReapWaits tests that wait.
func later(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: later DISTANCE")
	}
	distance, err := time.ParseDuration(args[0])
	ts.Check(err)
	store, err := lease.Open(context.Background(), "leases", ts.Getenv("ENDPOINT"))
	ts.Check(err)
	m, err := store.ReaperMemory(context.Background(), "orders")
	ts.Check(err)
	m.Look.Ended = m.Look.Ended.Add(-distance)
	_, err = store.WriteReaperMemory(context.Background(), protocol.Remember{Pool: "orders", Seen: m.Revision, New: m.Revision + "+", Look: m.Look})
	ts.Check(err)
}

func write(ts *testscript.TestScript, item map[string]any) {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(ts.Getenv("ENDPOINT")), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	av, err := attributevalue.MarshalMap(item)
	ts.Check(err)
	_, err = client.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: av})
	ts.Check(err)
}
