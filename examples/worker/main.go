// Command worker reads jobs, one per line of stdin, and assigns each an ID. It shows that main needs only lease.Run:
//
//   - SIGTERM ends the work after the current job, instead of killing the process in the middle of it.
//   - The node ID is released last.
//   - If the lease is lost, Run's error ends the process with a code that makes an orchestrator start another one.
//
// For example:
//
//	seq 5 | NODELEASE_TABLE=… NODELEASE_POOL=orders go run ./examples/worker
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func main() {
	cfg := lease.Config{OnEvent: func(e lease.Event) { notice(os.Stderr, e) }}
	err := lease.Run(context.Background(), cfg, func(ctx context.Context, agent *lease.Agent) error {
		jobs, failed := lines(os.Stdin)
		if err := work(ctx, agent, jobs, os.Stdout); err != nil {
			return err
		}
		return <-failed
	})
	if err != nil {
		log.Fatal(explain(err))
	}
}

// notice prints the events that this program's operators should see. The lease's own log contains these events too, among all others.
func notice(out io.Writer, e lease.Event) {
	switch e.Kind {
	case lease.EventSuspended:
		if e.IDsLeft > 0 { // the lease has grown
			fmt.Fprintf(out, "DynamoDB does not answer: jobs continue for %v\n", e.IDsLeft.Round(time.Second))
			break
		}
		fmt.Fprintln(out, "jobs wait: DynamoDB does not answer")
	case lease.EventResumed:
		fmt.Fprintln(out, "jobs continue")
	case lease.EventDropped: // a pause of this process, or a blocked terminal
		fmt.Fprintf(out, "%d events were not printed: this program was too slow\n", e.Dropped)
	}
}

// explain adds advice for the two failed starts that may succeed later.
func explain(err error) error {
	var full *lease.ExhaustedError
	switch {
	case errors.As(err, &full) && !full.NextFree.IsZero():
		return fmt.Errorf("none of %d node IDs of %s is free; if a worker has crashed, start again in %v",
			full.Size, full.Pool, time.Until(full.NextFree).Round(time.Second))
	case errors.Is(err, lease.ErrClockBehind):
		return fmt.Errorf("is this machine's clock correct? %w", err)
	}
	return err
}

// work ends after the last job, on SIGTERM, or when the lease is lost.
func work(ctx context.Context, agent *lease.Agent, jobs <-chan string, out io.Writer) error {
	ids, err := snowflake.New(agent)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case job, more := <-jobs:
			if !more {
				return nil
			}
			id, err := nextID(ctx, ids)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "worker %d did job %q as %d\n", agent.NodeID(), job, id)
		}
	}
}

// lines reads in a goroutine of its own, since a read cannot be cancelled. After the last job, failed has the error that ended the
// reading, or nil.
func lines(in io.Reader) (jobs <-chan string, failed <-chan error) {
	all, end := make(chan string), make(chan error, 1)
	go func() {
		defer close(all)
		s := bufio.NewScanner(in)
		for s.Scan() {
			all <- s.Text()
		}
		err := s.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a job of more than %d bytes, and none after it was done: split it: %w", bufio.MaxScanTokenSize, err)
		}
		end <- err
	}()
	return all, end
}

// nextID waits until a suspension is over. While DynamoDB is out of reach for longer than the lease, no ID may be made, and the job can
// wait.
func nextID(ctx context.Context, ids *snowflake.Generator) (snowflake.ID, error) {
	for {
		id, err := ids.NextContext(ctx)
		if !errors.Is(err, snowflake.ErrFenced) {
			return id, err
		}
		select {
		case <-ctx.Done(): // also after a loss, with lease.ErrLost as the cause
			return 0, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
