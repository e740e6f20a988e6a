package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/app/handler"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// procedures are the procedures of docs/operations.md and docs/migration.md. TestProcedures
// runs their commands as on the page, with its own sizes and times, while an old fleet
// makes IDs. No ID may be made twice by the processes that run before, during and after the
// procedure.

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
		p.command(0, 0, "2048", "8") // a larger pool
		p.start("orders", 4)
		p.command(0, 0, "2048", "2") // a smaller pool; holders above the new size may finish
		p.makeMore()
		p.command(1, 0, "1024", "8")
		p.invoke("2048", "12") // resized by the function, as if the pool were exhausted
		p.start("orders", 4)
		p.stopAll()
		p.start("orders", 8)
		p.command(0, 1, "2048", "1025") // the layout cannot hold 1,025 node IDs
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
		p.stopAll() // all agents stop before the floor is reached
		p.command(1, 0)
		p.start("orders2", 4)
	}},
	"an older item format": {[]string{
		"nodelease seed --table TABLE --pool orders2 --size 4096 --layout wide16 --floor +10m",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.start("orders", 4)
		p.stopAll()
		last := p.clockAhead(snowflake.Default(), 4)
		p.setFormat(1)
		if _, err := lease.Start(p.t.Context(), lease.Config{Store: p.store, Pool: "orders"}); !errors.Is(err, lease.ErrItemFormat) {
			p.t.Errorf("a start on a pool of format 1: got %v, want %v", err, lease.ErrItemFormat)
		}
		p.command(0, 0, "+10m", last.UTC().Format(time.RFC3339Nano), "4096", "4", "wide16", "default")
		p.start("orders2", 4)
	}},
	"a wrong layout": {[]string{
		"nodelease set-layout wide16 --table TABLE --pool orders",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "js53")
		p.command(0, 0)
		p.start("orders", 2)
		p.command(0, 0, "wide16", "wide16") // the pool already has this layout
		p.command(0, 1, "wide16", "default")
		p.makeMore()
		p.start("orders", 2)
	}},
	"a large fleet": {[]string{
		"nodelease seed --table TABLE --pool orders --size 16384 --expect 10000",
	}, func(p *procedure) {
		p.command(0, 0, "16384", "300", "10000", "200")
		p.command(0, 0, "16384", "300", "10000", "300") // the same pool, expecting more tasks later
		p.start("orders", 8)
	}},
	"all at once, with a floor": {[]string{
		"nodelease seed --table TABLE --pool orders --size 1024 --layout twitter --floor 2026-11-21T12:00:00Z",
	}, func(p *procedure) {
		last := p.clockAhead(snowflake.Twitter(), 8)
		p.command(0, 0, "2026-11-21T12:00:00Z", last.UTC().Format(time.RFC3339Nano), "1024", "4")
		p.must("resize", "--size", "8", "--pool", "orders") // adds node IDs that the backup does not have
		p.start("orders", 8)
	}},
	"side by side": {[]string{
		"nodelease seed --table TABLE --pool orders --size 1024 --layout twitter --exclude-below 16",
	}, func(p *procedure) {
		p.fixed(snowflake.Twitter(), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
		p.command(0, 0, "1024", "20")
		p.start("orders", 4)
	}},
	"side by side, data centers 0 and 1": {nil, func(p *procedure) { p.besides(snowflake.Twitter(), "--exclude-below 64", 0, 31, 32, 63) }},
	"side by side, Discord's workers":    {nil, func(p *procedure) { p.besides(snowflake.Discord(), "--exclude-below 512", 0, 31, 32, 15*32, 15*32+31) }},
	"moving back": {nil, func(p *procedure) {
		p.seed("--size", "4", "--layout", "twitter")
		p.start("orders", 4)
		p.stopAll()
		p.clockAhead(snowflake.Twitter(), 4)
		largest := slices.Max(slices.Collect(maps.Keys(p.made))) // SELECT max(id)
		var decoded struct{ IDs []struct{ Time time.Time } }
		if err := json.Unmarshal([]byte(p.call(0, []string{"id", largest.String(), "--json", "--pool", "orders"})), &decoded); err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(time.Until(decoded.IDs[0].Time.Add(time.Millisecond))) // as the page states, by the clock of the old processes
		p.fixed(snowflake.Twitter(), 0, 1, 2, 3)
	}},
	"restore beside a process that cannot be stopped": {[]string{
		"nodelease raise --table TABLE --pool orders --to +1m",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.start("orders", 2)
		backup := p.items()
		p.startCutOff("orders", 2)
		p.closeAll()
		p.restore(backup)
		p.command(0, 0, "+1m", "+"+cutOffReserve.String()) // now + MaxReserve
		p.start("orders", 4)
	}},
	"a new table beside a process that cannot be stopped": {[]string{
		"nodelease seed --table TABLE --pool orders --size 1024 --layout default --floor +1m",
	}, func(p *procedure) {
		p.seed("--size", "4", "--layout", "default")
		p.startCutOff("orders", 2)
		p.restore(nil)
		p.command(0, 0, "+1m", "+"+cutOffReserve.String(), "1024", "4")
		p.start("orders", 4)
	}},
	"where to look": {[]string{
		"nodelease doctor --table TABLE --pool orders",
		"nodelease list --table TABLE --pool orders",
		"nodelease id ID --table TABLE --pool orders",
	}, func(p *procedure) {
		p.seed("--size", "16", "--layout", "default")
		p.start("orders", 4)
		before := p.items()
		p.command(0, 0)
		p.command(1, 0)
		p.mu.Lock()
		largest := slices.Max(slices.Collect(maps.Keys(p.made)))
		p.mu.Unlock()
		p.command(2, 0, "ID", largest.String())
		p.must("inspect", "2", "--pool", "orders")
		p.must("stats", "--json", "--pool", "orders")
		if after := p.items(); len(after) != len(before) {
			p.t.Errorf("the table has %d items after looking, and had %d", len(after), len(before))
		}
		p.must("reap", "--no-wait", "--pool", "orders") // frees nothing, since all holders are alive
	}},
}

// besides starts old processes with the given node IDs, seeds a pool with the flags that
// the page lists for them, and starts tasks while the old processes continue to run.
func (p *procedure) besides(l snowflake.Layout, exclude string, nodes ...int) {
	p.t.Helper()
	page, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		p.t.Fatal(err)
	}
	if !strings.Contains(string(page), "| `"+exclude+"` |") {
		p.t.Errorf("the page does not seed with %s", exclude)
	}
	p.fixed(l, nodes...)
	low, _ := strconv.Atoi(exclude[strings.LastIndex(exclude, " ")+1:])
	p.seed(append(strings.Fields(exclude), "--size", strconv.Itoa(low+4), "--layout", leasepool.LayoutName(l))...)
	p.start("orders", 4)
}

// fixed starts old processes with the given fixed node IDs, which make IDs.
func (p *procedure) fixed(l snowflake.Layout, nodes ...int) {
	p.t.Helper()
	for _, node := range nodes {
		old, err := leasefixed.New(node, l)
		if err != nil {
			p.t.Fatal(err)
		}
		g, err := snowflake.New(old)
		if err != nil {
			p.t.Fatal(err)
		}
		p.makeIDs(g, "an old process")
	}
	p.makeMore()
}

// cutOffReserve is how long a process that cannot reach the table may go on making IDs.
const cutOffReserve = 4 * time.Second

// startCutOff starts agents, and cuts each of them off from the table once it makes IDs.
func (p *procedure) startCutOff(pool string, n int) {
	p.t.Helper()
	for range n {
		store := &cutOff{DynamoDB: p.store}
		a, err := lease.Start(p.t.Context(), lease.Config{
			Store: store, Pool: pool, Wait: time.Minute, Logger: slog.New(slog.DiscardHandler),
			TTL: time.Second, Guard: 200 * time.Millisecond, ClaimGuard: 100 * time.Millisecond, Reserve: cutOffReserve,
		})
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = a.Close() }) // fails, because the agent cannot reach the table
		g, err := snowflake.New(a)
		if err != nil {
			p.t.Fatal(err)
		}
		p.makeIDs(g, "a process that cannot be stopped")
		store.off.Store(true)
	}
	p.makeMore()
}

// cutOff is a store that can be cut off.
type cutOff struct {
	*protocol.DynamoDB
	off atomic.Bool
}

func (c *cutOff) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if c.off.Load() {
		return protocol.Result{}, errors.New("cut off")
	}
	return c.DynamoDB.Write(ctx, w)
}

func TestProcedures(t *testing.T) {
	t.Parallel()
	for name, c := range procedures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := database(t, "leases")
			client, err := lease.OpenClient(t.Context(), flags[1])
			if err != nil {
				t.Fatal(err)
			}
			p := &procedure{t: t, commands: c.commands, endpoint: flags[1], client: client, store: protocol.NewDynamoDB(client, "leases"), made: map[snowflake.ID]string{}}
			p.making, p.stop = context.WithCancel(t.Context())
			defer func() { p.stopAll() }()
			c.run(p)
			p.makeMore()
		})
	}
}

// The procedures run every command of the two pages that names a table, and cover every row
// of the pages' tables that contains a flag of seed.
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
		for _, command := range regexp.MustCompile("nodelease [a-z-]+[^`\n]* --table TABLE[^`\n]*").FindAllString(string(text), -1) {
			found[command] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(ran)); !slices.Equal(got, want) {
		t.Errorf("the pages contain the commands\n%s\nbut the procedures run\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// procedure is one run of a procedure, with all processes that make IDs during the run.
type procedure struct {
	t        *testing.T
	commands []string
	endpoint string
	client   *dynamodb.Client
	store    *protocol.DynamoDB

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

func (p *procedure) call(code int, args []string) (output string) {
	p.t.Helper()
	if args[0] == "raise" {
		args = append(args, "--yes")
	}
	args = append(args, "--table", "leases", "--endpoint", p.endpoint)
	got, stdout, stderr := answering("y\n", args...)
	if got != code {
		p.t.Fatalf("%s: exit code %d, want %d: %s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout
}

// command runs a command of the page, with its sizes and times replaced by the test's.
func (p *procedure) command(i, code int, replace ...string) {
	p.t.Helper()
	text := strings.TrimPrefix(p.commands[i], "nodelease ")
	text = strings.NewReplacer(append([]string{" --table TABLE", ""}, replace...)...).Replace(text)
	p.call(code, strings.Fields(text))
}

// start starts n agents of a pool and makes IDs with them, in the pool's layout.
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
				p.makeIDs(g, "a task on "+pool) // does not wait for the other agents
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

// makeIDs makes IDs until the fleet is stopped.
func (p *procedure) makeIDs(g *snowflake.Generator, who string) {
	making := p.making
	p.work.Go(func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		ids := make([]snowflake.ID, 20)
		for making.Err() == nil {
			n, _ := g.NextN(making, ids) // returns fewer IDs if the agent is suspended for a while, or the fleet is stopped
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

// clockAhead records the IDs that a fleet whose clocks were ahead would have made: for each
// of the given number of node IDs, one ID for every millisecond of the next second and a
// half. It returns the time of the last ID.
func (p *procedure) clockAhead(l snowflake.Layout, nodes int) (last time.Time) {
	p.t.Helper()
	now := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
	for node := range nodes {
		for ms := range 1500 {
			last = now.Add(time.Duration(ms) * time.Millisecond)
			if id, err := l.Compose(last, node, 0); err != nil {
				p.t.Fatal(err)
			} else if p.made[id] == "" { // otherwise a process of the running fleet has already made this ID
				p.record(id, "the old fleet")
			}
		}
	}
	return last
}

// record records an ID, and fails the test if the ID was made before.
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

// makeMore waits until the running processes have made 2,000 more IDs.
func (p *procedure) makeMore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.batches.L = &p.mu
	for want := p.n + 2000; p.n < want && !p.t.Failed(); {
		p.batches.Wait()
	}
}

// closeAll releases all leases, so that their generators make no further IDs.
func (p *procedure) closeAll() {
	for _, a := range p.agents {
		if err := a.Close(); err != nil {
			p.t.Error(err)
		}
	}
	p.agents = nil
}

// stopAll stops the fleet: it makes no further IDs, and all leases are released.
func (p *procedure) stopAll() {
	p.stop()
	p.work.Wait()
	p.closeAll()
	p.making, p.stop = context.WithCancel(p.t.Context())
}

// items reads the whole table, as a backup does.
func (p *procedure) items() []map[string]types.AttributeValue {
	p.t.Helper()
	out, err := p.client.Scan(p.t.Context(), &dynamodb.ScanInput{TableName: aws.String("leases"), ConsistentRead: aws.Bool(true)})
	if err != nil {
		p.t.Fatal(err)
	}
	return out.Items
}

// setFormat changes the format of the items of all pools and of their hint cards.
func (p *procedure) setFormat(format int) {
	p.t.Helper()
	for _, item := range p.items() {
		in := item
		if card, ok := item["card"].(*types.AttributeValueMemberM); ok {
			in = card.Value
		}
		if in["item_format"] == nil {
			continue
		}
		in["item_format"] = &types.AttributeValueMemberN{Value: strconv.Itoa(format)}
		if _, err := p.client.PutItem(p.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// invoke calls the bootstrap function with the payload of the page's command.
func (p *procedure) invoke(replace ...string) {
	p.t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		p.t.Fatal(err)
	}
	payload := regexp.MustCompile(`aws lambda invoke .*--payload '([^']*)'`).FindStringSubmatch(string(page))
	if payload == nil {
		p.t.Fatal("the page invokes no function")
	}
	event := json.RawMessage(strings.NewReplacer(replace...).Replace(payload[1]))
	if _, err := (&handler.Bootstrap{Table: "leases", Store: p.store}).Handle(p.t.Context(), event); err != nil {
		p.t.Fatalf("%s: %v", event, err)
	}
}

// restore replaces the table by one with the items of a backup.
func (p *procedure) restore(backup []map[string]types.AttributeValue) {
	p.t.Helper()
	if _, err := p.client.DeleteTable(p.t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("leases")}); err != nil {
		p.t.Fatal(err)
	}
	if err := demo.CreateTable(p.t.Context(), p.endpoint, "leases"); err != nil {
		p.t.Fatal(err)
	}
	for _, item := range backup {
		if _, err := p.client.PutItem(p.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			p.t.Fatal(err)
		}
	}
}
