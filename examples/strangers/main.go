// Command strangers checks, on a table of your own, what other systems promise
// their users. Its sentences are those of Zeebe's dynamic node IDs, dynamolock,
// etcd's sessions and elections, CockroachDB's SQL liveness and Consul-like
// registries, not ours. It was written from those sentences and from the public
// documentation of the packages.
//
//	nodelease dynamodb --table leases &
//	go run ./examples/strangers --endpoint http://127.0.0.1:8000 --table leases
//
// It prints a line for each sentence, with what it saw, and ends with 1 if it did
// not see one. It takes about three minutes, and leaves its pools in the table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func main() {
	endpoint := flag.String("endpoint", "", "the DynamoDB endpoint; AWS's own by default")
	table := flag.String("table", os.Getenv("NODELEASE_TABLE"), "the table of the leases")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := lease.OpenClient(ctx, *endpoint)
	if err == nil {
		err = run(ctx, client, *table, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "strangers:", err)
		os.Exit(1)
	}
}

// ttl is the length of all leases here, and the clusters' time-out.
const ttl = 5 * time.Second

// run checks all sentences; the error says how many it did not see.
func run(ctx context.Context, client *dynamodb.Client, table string, out io.Writer) error {
	w := &world{ctx: ctx, client: client, table: table, out: out, run: time.Now().UnixMilli()}
	for _, part := range []func(*world) error{leases, endings, clocks, members, readiness, election, services, fixed} {
		if err := part(w); err != nil {
			return err
		}
	}
	if w.unseen > 0 {
		return fmt.Errorf("%d of %d sentences were not seen", w.unseen, w.sentences)
	}
	fmt.Fprintf(out, "all %d sentences were seen\n", w.sentences)
	return nil
}

type world struct {
	ctx    context.Context
	client *dynamodb.Client
	table  string
	out    io.Writer
	run    int64

	sentences, unseen int
}

// check prints a sentence, whose it is, and what was seen.
func (w *world) check(seed, sentence string, seen bool, format string, args ...any) {
	w.sentences++
	mark := "seen    "
	if !seen {
		mark = "NOT SEEN"
		w.unseen++
	}
	fmt.Fprintf(w.out, "%s %s: %s (%s)\n", mark, seed, sentence, fmt.Sprintf(format, args...))
}

func (w *world) pool(name string) string { return fmt.Sprintf("strangers-%s-%d", name, w.run) }

// line is a process's connection to the table. It counts, and can be cut.
type line struct {
	next interface {
		Do(*http.Request) (*http.Response, error)
	}
	cut            atomic.Bool
	writes, others atomic.Int64
}

func (l *line) Do(r *http.Request) (*http.Response, error) {
	if l.cut.Load() {
		return nil, errors.New("the line is cut")
	}
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		l.writes.Add(1)
	} else {
		l.others.Add(1)
	}
	return l.next.Do(r)
}

func (l *line) requests() int64 { return l.writes.Load() + l.others.Load() }

// process is what would be a process of its own: an agent, and its line.
type process struct {
	*lease.Agent
	line   *line
	client *dynamodb.Client
	store  *lease.DynamoDB
}

// start starts a process on a pool of a size, which it seeds if nobody has.
func (w *world) start(pool string, size int, change func(*lease.Config)) (*process, error) {
	p := w.connect()
	cfg := lease.Config{
		Pool: pool, TTL: ttl, Store: p.store, Task: "stranger", Logger: quiet(),
		SeedIfMissing: &leasepool.Spec{Size: size},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	p.Agent, err = lease.Start(w.ctx, cfg)
	return p, err
}

// connect returns a process that has no lease yet.
func (w *world) connect() *process {
	o := w.client.Options()
	l := &line{next: o.HTTPClient}
	o.HTTPClient = l
	c := dynamodb.New(o)
	return &process{line: l, client: c, store: lease.NewDynamoDB(c, w.table)}
}

// crash is what others see of a process that was killed: nothing.
func (p *process) crash() { p.line.cut.Store(true) }

// end closes what is left of processes.
func end(ps ...*process) {
	for _, p := range ps {
		if p != nil && p.Agent != nil {
			_ = p.Close()
		}
	}
}

// held returns the lease as the agent knows it, for its fields only.
func (p *process) held() lease.Lease {
	l, _ := p.Lease()
	return l
}

func wait(most time.Duration) func(*lease.Config) {
	return func(c *lease.Config) { c.Wait = most }
}

// until asks until the answer is yes, and says how long that took.
func (w *world) until(most time.Duration, yes func() bool) (time.Duration, bool) {
	begin := time.Now()
	for {
		if yes() {
			return time.Since(begin), true
		}
		if time.Since(begin) > most || w.ctx.Err() != nil {
			return time.Since(begin), false
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
