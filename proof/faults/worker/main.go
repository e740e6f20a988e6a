// Command worker is the process that the fault tests kill, freeze and cut off, and whose
// clock they move. It holds a node ID and makes IDs. It reports each event as a line on
// standard output:
//
//	claimed <node> <version>      also for the claim after a loss
//	renewed <node> <version>
//	suspended, resumed, lost, unanswered …
//	ids <id> <id> …               IDs that were made before the line was written
//	use <node> <version> <from> <to>  the lease could be relied on at some moment
//	                              between two readings of CLOCK_MONOTONIC, in ns
//
// On standard input, worker accepts "stop" and, if it was built with the overlay of the time
// package (see the tests), "step <duration>".
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func main() {
	endpoint := flag.String("endpoint", "", "DynamoDB")
	table := flag.String("table", "leases", "")
	ttl := flag.Duration("ttl", time.Second, "")
	onLost := flag.Int("on-lost", 0, "lease.LostPolicy")
	every := flag.Duration("every", 2*time.Millisecond, "time between batches of IDs")
	flag.Parse()
	if err := run(*endpoint, *table, *every, lease.Config{
		Pool: "orders", TTL: *ttl, MaxTTL: *ttl, Guard: *ttl / 5, ClaimGuard: *ttl / 10, OnLost: lease.LostPolicy(*onLost),
		Wait: time.Minute, Logger: slog.New(slog.DiscardHandler), OnEvent: tell,
	}); err != nil {
		say("failed %v", err)
		os.Exit(1)
	}
}

var out sync.Mutex

// say writes one line with one system call. So if the process is killed, only the last line
// may be incomplete.
func say(format string, args ...any) {
	out.Lock()
	defer out.Unlock()
	_, _ = os.Stdout.WriteString(fmt.Sprintf(format, args...) + "\n")
}

func tell(e lease.Event) {
	say("%s %d %d %d %s %v", e.Kind, e.Lease.NodeID, e.Lease.Version, e.Left.Milliseconds(), e.Reason, e.Err)
}

func run(endpoint, table string, every time.Duration, cfg lease.Config) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, err := lease.Open(ctx, table, endpoint)
	if err != nil {
		return err
	}
	cfg.Store = store
	go obey(stop)
	a, err := lease.Start(ctx, cfg)
	if err != nil {
		return err
	}
	ids, err := snowflake.New(a, snowflake.WithMaxWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	pace := time.NewTicker(every)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-pace.C:
		case <-a.Done():
			say("done %v", a.Err())
			return nil
		case <-ctx.Done():
			err := a.Close()
			say("closed %v", err)
			return err
		}
		if n%8 == 0 {
			use(a)
		}
		if n%2 == 0 {
			batch(ids)
		} else if id, err := ids.Next(); err == nil {
			say("ids %d", id)
		}
	}
}

// batch makes up to 16 IDs with one call.
func batch(ids *snowflake.Generator) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var dst [16]snowflake.ID
	n, _ := ids.NextN(ctx, dst[:]) // the first n are valid even if there is an error
	if n == 0 {
		return
	}
	var line strings.Builder
	for _, id := range dst[:n] {
		fmt.Fprintf(&line, " %d", id)
	}
	say("ids%s", line.String())
}

// use asks the agent whether the lease can be relied on. If so, it reports the times before
// and after the call.
func use(a *lease.Agent) {
	from := monotonic()
	l, err := a.Lease()
	to := monotonic()
	if err == nil {
		say("use %d %d %d %d", l.NodeID, l.Version, from, to)
	}
}

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// obey carries out the orders on standard input.
func obey(stop func()) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "stop":
			stop()
		case "step":
			d, err := time.ParseDuration(rest)
			if err != nil {
				panic(err)
			}
			step(d)
			say("stepped %v", d)
		}
	}
}
