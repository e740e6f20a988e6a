// Command promises checks what the documentation promises about members, leaders and services, sentence by sentence, on a table of your
// own. It uses only the public API. It seeds three pools, ends members in every possible way, and prints a line for each sentence that it
// found to be true. You can also use it to test a store that claims to be compatible with DynamoDB.
//
//	NODELEASE_TABLE=… go run ./examples/promises -ttl 5s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func main() {
	log.SetFlags(0)
	ttl := flag.Duration("ttl", 5*time.Second, "length of the leases, 5s or more")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	open, err := clients(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c := &check{ttl: *ttl, table: os.Getenv("NODELEASE_TABLE"), open: open, send: http.DefaultClient, out: os.Stdout}
	if err := c.promises(ctx); err != nil {
		log.Fatal(err)
	}
}

// clients returns a function that opens a client with the SDK's default configuration, which sends its requests by the doer.
func clients(ctx context.Context) (func(doer) *dynamodb.Client, error) {
	// An endpoint on this machine needs neither a Region nor credentials, as in all examples: lease.OpenClient takes care of that.
	client, err := lease.OpenClient(ctx, "")
	if err != nil {
		return nil, err
	}
	return func(d doer) *dynamodb.Client {
		return dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.HTTPClient = d })
	}, nil
}

// doer sends requests, as *http.Client does.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// check checks the promises, in a table.
type check struct {
	ttl   time.Duration
	table string
	open  func(doer) *dynamodb.Client
	send  doer
	out   io.Writer
	run   int64 // makes the pools' names new in each run
	all   []*process
}

// promises checks all promises.
func (c *check) promises(ctx context.Context) error {
	c.run = time.Now().UnixMilli()
	defer func() {
		for _, p := range c.all {
			_ = p.agent.Close() // most have ended
		}
	}()
	for _, part := range []func(context.Context) error{c.members, c.readiness, c.leaders, c.leaderLease, c.services, c.fixed} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// holds prints a confirmed sentence. It does not print a sentence in brackets, which is only a condition to wait for.
func (c *check) holds(sentence string) {
	if sentence[0] != '(' {
		fmt.Fprintln(c.out, "holds:", sentence)
	}
}

// eventually waits until condition holds, but no longer than limit.
func (c *check) eventually(ctx context.Context, limit time.Duration, sentence string, condition func() bool) error {
	for end := time.Now().Add(limit); !condition(); {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", limit, sentence)
		}
		if err := pause(ctx, c.ttl/100); err != nil {
			return err
		}
	}
	c.holds(sentence)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pool seeds a pool.
func (c *check) pool(ctx context.Context, kind string, size int) (string, error) {
	name := fmt.Sprintf("promises-%s-%d", kind, c.run)
	_, err := leasepool.Open(lease.NewDynamoDB(c.open(c.send), c.table), name).Seed(ctx, leasepool.Spec{Size: size})
	return name, err
}

// process simulates a process: its own connection to the table, which can be cut, and its lease.
type process struct {
	client *dynamodb.Client
	cut    *atomic.Bool
	agent  *lease.Agent
}

// start starts a process that has a lease.
func (c *check) start(ctx context.Context, pool string) (*process, error) {
	p := &process{cut: &atomic.Bool{}}
	p.client = c.open(connection{c.send, p.cut})
	var err error
	p.agent, err = lease.Start(ctx, lease.Config{
		Store: lease.NewDynamoDB(p.client, c.table), Pool: pool, TTL: c.ttl, Wait: 4 * c.ttl, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	c.all = append(c.all, p)
	return p, nil
}

// connection is the connection of a process to the table. It is cut to simulate a crash of the process, as far as others can see.
type connection struct {
	doer
	cut *atomic.Bool
}

var errCut = errors.New("no route to host")

func (c connection) Do(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.doer.Do(r)
}

var _ aws.HTTPClient = connection{}
