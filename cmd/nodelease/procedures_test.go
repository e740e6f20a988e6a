package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// The procedures of docs/operations.md and docs/migration.md: their commands are run
// exactly as on the page, while an old fleet makes IDs, and no ID may be made twice
// by the processes before, meanwhile and after.

var procedures = map[string]struct {
	commands []string
	run      func(p *procedure)
}{
	"resize": {[]string{
		"nodelease resize --table TABLE --pool orders --size 2048",
		"nodelease resize --table TABLE --pool orders --size 1024",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.start("orders", 4)
		p.command(0, 0, "2048", "8") // growing
		p.start("orders", 4)
		p.command(0, 0, "2048", "2") // shrinking: the holders may finish
		p.makeMore()
		p.command(1, 0, "1024", "8")
		p.stopAll()
		p.start("orders", 8)
		p.command(0, 1, "2048", "1025") // the layout cannot hold it
	}},
	"narrow": {[]string{
		"nodelease resize --table TABLE --pool orders --size 1024",
	}, func(p *procedure) {
		p.seed("--size", "300", "--narrow", "--layout", "wide16")
		p.start("orders", 4)
		p.command(0, 0, "1024", "1024")
		p.start("orders", 4)
		p.command(0, 0, "1024", "300")
		p.makeMore()
		p.command(0, 0, "1024", "300")
	}},
	"restore": {[]string{
		"nodelease raise --table TABLE --pool orders --to +1m",
		"nodelease resize --table TABLE --pool orders --size 2048",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.start("orders", 2)
		backup := p.items()
		p.must("resize", "--size", "8", "--pool", "orders")
		p.start("orders", 6)
		p.makeMore()
		p.stopAll()
		p.clockAhead(snowflake.Default(), 8)
		p.restore(backup)
		p.command(0, 0, "+1m", "+2s")
		p.command(1, 0, "2048", "8")
		p.start("orders", 8)
	}},
	"a new table": {[]string{
		"nodelease seed --table TABLE --pool orders --size 1024 --layout default --floor +1m",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.start("orders", 4)
		p.stopAll()
		p.clockAhead(snowflake.Default(), 4)
		p.restore(nil)
		p.command(0, 0, "+1m", "+2s", "1024", "4")
		p.start("orders", 4)
	}},
	"a pool outgrows its layout": {[]string{
		"nodelease seed --table TABLE --pool orders2 --size 4096 --layout wide16 --floor +10m",
		"nodelease list --table TABLE --pool orders",
		"nodelease raise --table TABLE --pool orders2 --to +10m",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.start("orders", 4)
		p.command(0, 0, "+10m", "+3s", "4096", "8")
		p.command(2, 0, "+10m", "+3s")
		p.makeMore()
		p.stopAll() // before the floor
		p.command(1, 0)
		p.start("orders2", 4)
	}},
	"a wrong layout": {[]string{
		"nodelease set-layout wide16 --table TABLE --pool orders",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "js53")
		p.command(0, 0)
		p.start("orders", 2)
		p.command(0, 0, "wide16", "wide16") // it is that already
		p.command(0, 1, "wide16", "default")
		p.makeMore()
		p.start("orders", 2)
	}},
	"a large fleet": {[]string{
		"nodelease seed --table TABLE --pool orders --size 16384 --expect 10000",
	}, func(p *procedure) {
		p.command(0, 0, "16384", "300", "10000", "200")
		p.command(0, 0, "16384", "300", "10000", "300") // and more later
		p.start("orders", 8)
	}},
	"all at once, with a floor": {[]string{
		"nodelease seed --table TABLE --pool orders --size 1024 --layout twitter --floor 2026-11-21T12:00:00Z",
	}, func(p *procedure) {
		last := p.clockAhead(snowflake.Twitter(), 8)
		p.command(0, 0, "2026-11-21T12:00:00Z", last.UTC().Format(time.RFC3339Nano), "1024", "4")
		p.must("resize", "--size", "8", "--pool", "orders") // node IDs that come later
		p.start("orders", 8)
	}},
	"side by side": {[]string{
		"nodelease seed --table TABLE --pool orders --size 1024 --layout twitter --exclude-below 16",
	}, func(p *procedure) {
		for node := range 16 {
			old, err := leasefixed.New(node, snowflake.Twitter())
			if err != nil {
				p.t.Fatal(err)
			}
			g, err := snowflake.New(old)
			if err != nil {
				p.t.Fatal(err)
			}
			p.makeIDs(g, "an old process")
		}
		p.command(0, 0, "1024", "20")
		p.start("orders", 4)
	}},
}

func TestProcedures(t *testing.T) {
	t.Parallel()
	for name, c := range procedures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := database(t, "leases")
			store, err := lease.Open(t.Context(), "leases", flags[1])
			if err != nil {
				t.Fatal(err)
			}
			p := &procedure{t: t, commands: c.commands, endpoint: flags[1], store: store, made: map[snowflake.ID]string{}}
			p.making, p.stop = context.WithCancel(t.Context())
			defer func() { p.stopAll() }()
			c.run(p)
			p.makeMore()
		})
	}
}

// Every command of the two pages that names a table is run by a procedure.
func TestProceduresAreAllRun(t *testing.T) {
	ran := map[string]bool{}
	for _, c := range procedures {
		for _, command := range c.commands {
			ran[command] = true
		}
	}
	found := map[string]bool{}
	for _, page := range []string{"operations.md", "migration.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range regexp.MustCompile("nodelease (?:seed|resize|raise|set-layout|release|reap|list)[^`\n]* --table TABLE[^`\n]*").FindAllString(string(text), -1) {
			found[command] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(ran)); !slices.Equal(got, want) {
		t.Errorf("the pages contain the commands\n%s\nbut the procedures run\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// procedure is one run of a procedure, with all who make IDs meanwhile.
type procedure struct {
	t        *testing.T
	commands []string
	endpoint string
	store    *lease.DynamoDB

	making context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
	agents []*lease.Agent

	mu      sync.Mutex
	made    map[snowflake.ID]string
	batches sync.Cond
	n       int
}

func (p *procedure) seed(args ...string) {
	p.must(append([]string{"seed", "--pool", "orders"}, args...)...)
}

func (p *procedure) must(args ...string) { p.call(0, args) }

func (p *procedure) call(code int, args []string) {
	p.t.Helper()
	if args[0] == "raise" {
		args = append(args, "--yes")
	}
	args = append(args, "--table", "leases", "--endpoint", p.endpoint)
	if got, stdout, stderr := answering("y\n", args...); got != code {
		p.t.Fatalf("%s: exit code %d, want %d: %s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
}

// command runs a command of the page, with sizes and times that a test has.
func (p *procedure) command(i, code int, replace ...string) {
	p.t.Helper()
	text := strings.TrimPrefix(p.commands[i], "nodelease ")
	text = strings.NewReplacer(append([]string{" --table TABLE", ""}, replace...)...).Replace(text)
	p.call(code, strings.Fields(text))
}

// start lets agents of a pool make IDs, each with the pool's layout.
func (p *procedure) start(pool string, n int) {
	p.t.Helper()
	agents, errs := make([]*lease.Agent, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			var g *snowflake.Generator
			agents[i], errs[i] = lease.Start(p.t.Context(), lease.Config{Store: p.store, Pool: pool, Wait: time.Minute, Logger: slog.New(slog.DiscardHandler)})
			if errs[i] == nil {
				g, errs[i] = snowflake.New(agents[i])
			}
			if errs[i] == nil {
				p.makeIDs(g, "a task on "+pool) // at once: others may have to wait
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		p.t.Fatal(err)
	}
	p.agents = append(p.agents, agents...)
	p.makeMore()
}

// makeIDs makes IDs until all are stopped.
func (p *procedure) makeIDs(g *snowflake.Generator, who string) {
	making := p.making
	p.work.Go(func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		ids := make([]snowflake.ID, 20)
		for making.Err() == nil {
			n, _ := g.NextN(making, ids) // suspended for a while, or stopped
			for _, id := range ids[:n] {
				p.record(id, who)
			}
			select {
			case <-pace.C:
			case <-making.Done():
			}
		}
	})
}

// clockAhead records IDs of every millisecond from now until a second and a half later,
// of so many node IDs, as a fleet leaves them whose clocks were ahead. It returns the
// time of the last one.
func (p *procedure) clockAhead(l snowflake.Layout, nodes int) (last time.Time) {
	p.t.Helper()
	now := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
	for node := range nodes {
		for ms := range 1500 {
			last = now.Add(time.Duration(ms) * time.Millisecond)
			if id, err := l.Compose(last, node, 0); err != nil {
				p.t.Fatal(err)
			} else if p.made[id] == "" { // the fleet's clocks are ahead of this one's already
				p.record(id, "the old fleet")
			}
		}
	}
	return last
}

// record checks that an ID was not made before.
func (p *procedure) record(id snowflake.ID, who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other, twice := p.made[id]; twice {
		p.t.Errorf("ID %d was made by %s and by %s", id, other, who)
	}
	p.made[id] = who
	p.n++
	if p.batches.L != nil {
		p.batches.Broadcast()
	}
}

// makeMore waits until those who make IDs have made some more.
func (p *procedure) makeMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches.L = &p.mu
	for want := p.n + 2000; p.n < want && !p.t.Failed(); {
		p.batches.Wait()
	}
}

// stopAll stops the fleet: no IDs are made, and all leases are released.
func (p *procedure) stopAll() {
	p.stop()
	p.work.Wait()
	for _, a := range p.agents {
		if err := a.Close(); err != nil {
			p.t.Error(err)
		}
	}
	p.agents = nil
	p.making, p.stop = context.WithCancel(p.t.Context())
}

// items reads the whole table, as a backup does.
func (p *procedure) items() []map[string]types.AttributeValue {
	p.t.Helper()
	out, err := p.client().Scan(p.t.Context(), &dynamodb.ScanInput{TableName: aws.String("leases"), ConsistentRead: aws.Bool(true)})
	if err != nil {
		p.t.Fatal(err)
	}
	return out.Items
}

// restore replaces the table.
func (p *procedure) restore(backup []map[string]types.AttributeValue) {
	p.t.Helper()
	if _, err := p.client().DeleteTable(p.t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("leases")}); err != nil {
		p.t.Fatal(err)
	}
	if err := demo.CreateTable(p.t.Context(), p.endpoint, "leases"); err != nil {
		p.t.Fatal(err)
	}
	for _, item := range backup {
		if _, err := p.client().PutItem(p.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *procedure) client() *dynamodb.Client {
	client, _ := p.store.Table()
	return client.(*dynamodb.Client)
}
