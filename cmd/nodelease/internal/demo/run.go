package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/ui"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// View shows a demo while it runs.
type View interface {
	// News is called with each thing that happens, in order, never concurrently.
	News(News)
	// Run shows the board until ctx ends or the viewer ends the view. It restores the
	// terminal before it returns.
	Run(ctx context.Context, b *Board) error
}

// lastView is a view that shows how the demo ended. Last is called when no process is left;
// the board has the table's final state then.
type lastView interface {
	Last(b *Board) error
}

const (
	// endGrace is how long a task may take to end: it tries to release its node ID for up to 3 s.
	endGrace = 4 * time.Second
	// interruptGrace is shorter than endGrace, because a user who interrupts the demo does
	// not want to wait.
	interruptGrace = 1500 * time.Millisecond
	sampleEvery    = 500 * time.Millisecond
)

// Run runs the whole demo, until its duration is over, ctx ends, or the view ends.
// No process is left when it returns. If there is an error, the summary covers the
// demo up to that point. If the comparison of IDs found a problem, the error is one
// of this package's errors. If ctx or Ctrl-C in the view ended the demo, the error
// is ErrInterrupted.
func Run(ctx context.Context, o Options, view View) (Summary, error) {
	// Linux ends a child together with the thread that started it: see isolate.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := errors.Join(o.Validate(), forgetAWS()); err != nil {
		return Summary{}, err
	}
	b := newBoard(o, view.News)
	err := show(ctx, o, view, b)
	sum := b.summary()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrInterrupted, context.Cause(ctx))
	case err == nil && sum.IDs == 0:
		err = ErrNoIDs
	}
	return sum, errors.Join(b.verdict(), err)
}

// show starts all processes, runs the plan, and ends the processes.
func show(ctx context.Context, o Options, view View, b *Board) error {
	d := &director{Options: o, board: b}
	if o.Outage {
		dir, err := os.MkdirTemp("", "nodelease-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		d.data = filepath.Join(dir, "tables.journal")
	}
	var err error
	if d.server, err = startServer(ctx, o.Port, o.Table, d.data); err != nil {
		return err
	}
	defer func() {
		if !d.down {
			d.server.stop()
		}
	}()
	b.Tell("server", "an embedded DynamoDB, process %d, on %s", d.server.pid(), d.server.endpoint)
	store := lease.NewDynamoDB(client(d.server.endpoint), o.Table)
	if _, err = leasepool.Open(store, o.Pool).Seed(ctx, leasepool.Spec{Size: o.Size}); err != nil {
		return err
	}
	b.Tell("seeded", "pool %q with %s", o.Pool, Count(o.Size, "node ID"))
	b.Tell("look", "nodelease list --endpoint %s --table %s --pool %s", d.server.endpoint, o.Table, o.Pool)

	var page *ui.Server
	var listener net.Listener
	if o.Page {
		if page, listener, err = b.openPage(store); err != nil {
			return err
		}
	}

	b.begin()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var helpers sync.WaitGroup
	quit := make(chan struct{})
	var viewErr error
	helpers.Go(func() { viewErr = view.Run(background, b); close(quit) })
	helpers.Go(func() { (&watcher{o, store, b}).run(background) })
	helpers.Go(func() { b.sampleUntil(background) })
	if page != nil {
		helpers.Go(func() { b.servePage(background, page, listener) })
	}

	err = d.run(ctx, quit)
	grace := endGrace
	if ctx.Err() != nil {
		grace = interruptGrace
	}
	d.end(grace)
	b.end()
	stop()
	helpers.Wait()
	if !d.down {
		// The watcher's last read may be older than the last release.
		if leases, err := (&watcher{o, store, b}).look(context.WithoutCancel(ctx)); err == nil {
			b.table(leases)
		}
	}
	if v, ok := view.(lastView); ok && viewErr == nil {
		viewErr = v.Last(b)
	}
	return errors.Join(err, viewErr)
}

func (b *Board) sampleUntil(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.sample()
		}
	}
}
