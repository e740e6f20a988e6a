package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

const (
	// patience is how long a read may go without an answer before the outage is shown: a
	// viewer must not take silence for calm.
	patience = 5 * time.Second
	// shortestFirst is the shortest time allowed for the first read, even if --for is
	// shorter.
	shortestFirst = 2 * time.Second
)

// watch reads a pool repeatedly.
type watch struct {
	pool    *leasepool.Pool
	item    itemReader // nil: the pool's item is not shown
	every   time.Duration
	length  time.Duration // 0: until stopped
	answers *answers
	doctor  string // command that finds out why the table does not answer
	before  *listed
	silent  func(outage) // called each second of an outage, and at its end
}

// outage describes a silence of the table: its length so far or, once the table answers
// again, its total length.
type outage struct {
	silence time.Duration
	doctor  string // command that finds out why the table does not answer
	ended   bool
}

func (o outage) over() bool { return o.silence == 0 || o.ended }

func (o outage) String() string {
	if o.ended {
		return fmt.Sprintf("the table answers again, after %v", o.silence.Round(time.Second))
	}
	return fmt.Sprintf("no answer from the table for %v, still trying; to find out why: %s", o.silence.Round(time.Second), o.doctor)
}

// outageLine reports outages: on a terminal, on one line that counts the seconds;
// elsewhere, on one line when an outage is noticed and another when it is over.
func outageLine(out io.Writer) func(outage) {
	told := false
	return func(o outage) {
		switch {
		case isTerminal(out):
			end := text.Safe{}
			if o.ended {
				end = text.Sprintf("\n")
			}
			_ = say(out, text.Sprintf("%s%s%s", text.Trusted("\r"+ansi.EraseLineRight), o, end))
		case !told || o.ended:
			_ = say(out, text.Sprintf("%s\n", o))
		}
		told = !o.ended
	}
}

// look reads the pool, and returns the changes since the last read. On the first read,
// every holder is a change.
func (w *watch) look(ctx context.Context) (*listed, []change, error) {
	began := time.Now()
	done, told := make(chan struct{}), make(chan bool)
	go func() {
		tick := time.NewTimer(patience)
		defer tick.Stop()
		late := false
		for {
			select {
			case <-done:
				told <- late
				return
			case <-tick.C:
				late = true
				w.silent(outage{silence: time.Since(began), doctor: w.doctor})
				tick.Reset(time.Second)
			}
		}
	}()
	now, err := w.read(ctx)
	close(done)
	if late := <-told; late && err == nil {
		w.silent(outage{silence: time.Since(began), ended: true})
	}
	if err != nil {
		return nil, nil, err
	}
	changes := changesBetween(w.before, now)
	w.before = now
	return now, changes, nil
}

// read reads the pool once. It reads the item each time, because a resize may have changed it.
func (w *watch) read(ctx context.Context) (*listed, error) {
	var item leasepool.Item
	if w.item != nil {
		var err error
		if item, err = protocol.Retry(ctx, w.item); err != nil {
			return nil, err
		}
	}
	return look(ctx, w.pool, item)
}

// lines calls tell with the changes of each read until ctx ends or --for has passed. After
// the first read it continues through outages, because a viewer wants to see when they end.
func (w *watch) lines(ctx context.Context, tell func(*listed, []change) error) error {
	began := time.Now()
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for first := true; ; first = false {
		one, cancel := ctx, context.CancelFunc(func() {})
		if w.length > 0 {
			end := began.Add(w.length)
			if first {
				end = began.Add(max(w.length, shortestFirst))
			}
			one, cancel = context.WithDeadline(ctx, end)
		}
		l, changes, err := w.look(one)
		over := one.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // the command was stopped
		case err != nil && over:
			return w.answers.overdue() // --for has passed
		case err != nil:
			return err
		}
		if first {
			w.answers.ready()
		}
		if err := tell(l, changes); err != nil || over {
			return err
		}
		var end <-chan time.Time
		if w.length > 0 {
			end = time.After(time.Until(began.Add(w.length)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return nil
		case <-ticker.C:
		}
	}
}
