// Command importer assigns IDs to millions of rows, with as many goroutines as there are
// cores. Each goroutine has a block of its own, so that the goroutines do not wait for each
// other. A row is a line of stdin. The output has a line for each row, in any order: an ID
// as text, a tab, and the row.
//
//	seq 1000000 | NODELEASE_TABLE=… NODELEASE_POOL=orders go run ./examples/importer -key base58 | sort
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"iter"
	"log"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// keys are the text forms of IDs. Texts in base32 and base58 sort as the numbers do; texts in base32 also where case does not matter.
var keys = map[string]func(snowflake.ID, []byte) []byte{
	"decimal": snowflake.ID.AppendDecimal,
	"base32":  snowflake.ID.AppendBase32,
	"base58":  snowflake.ID.AppendBase58,
}

func main() {
	log.SetFlags(0)
	name := flag.String("key", "base32", "decimal, base32 or base58")
	flag.Parse()
	key := keys[*name]
	if key == nil {
		log.Fatalf("-key %q: use decimal, base32 or base58", *name)
	}
	err := lease.Run(context.Background(), config(), func(ctx context.Context, agent *lease.Agent) error {
		return run(ctx, agent, key, os.Stdin, os.Stdout)
	})
	if err != nil {
		log.Fatal(err)
	}
}

// config lets an import outlast an hour without DynamoDB. If the import crashes, its node ID rests for that hour.
func config() lease.Config {
	return lease.Config{Metadata: map[string]string{"doing": "import"}, Reserve: time.Hour}
}

// errStopped does not wrap the end of the context: lease.Run ignores such an error after a signal, and an import that a signal has cut
// off must not end as if it were complete.
var errStopped = errors.New("stopped by a signal: rows may have no ID")

// run ends when all rows have IDs, when ctx ends, or when the first worker fails.
func run(ctx context.Context, node snowflake.Node, key func(snowflake.ID, []byte) []byte, in io.Reader, out io.Writer) error {
	// A worker that the machine did not run for a while catches up. It does no harm that the times in its IDs are then up to 100 ms in the
	// past.
	ids, err := snowflake.New(node, snowflake.WithCatchUp(100*time.Millisecond))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches := read(ctx, stop, in)
	var workers sync.WaitGroup
	var mu sync.Mutex // guards out
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			block := ids.Block()
			for rows := range until(ctx, batches) {
				text, err := number(block, key, rows)
				if err == nil {
					mu.Lock()
					_, err = out.Write(text)
					mu.Unlock()
				}
				if err != nil {
					stop(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return errStopped
}

// until yields the batches until ctx ends. It does not wait for read, since a read of stdin cannot be cancelled.
func until(ctx context.Context, batches <-chan []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for {
			select {
			case rows, more := <-batches:
				if !more || !yield(rows) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// number assigns rows their IDs, which increase strictly within a block.
func number(block *snowflake.Block, key func(snowflake.ID, []byte) []byte, rows []string) (text []byte, err error) {
	for _, row := range rows {
		id, err := block.Next()
		if err != nil {
			return nil, err
		}
		text = append(append(append(key(id, text), '\t'), row...), '\n')
	}
	return text, nil
}

// read sends the lines in batches of a thousand. It stops the import if it cannot read.
func read(ctx context.Context, stop context.CancelCauseFunc, in io.Reader) <-chan []string {
	batches := make(chan []string)
	go func() {
		defer close(batches)
		var rows []string
		for s := bufio.NewScanner(in); ; {
			more := s.Scan()
			if more {
				rows = append(rows, s.Text())
			}
			if !more || len(rows) == 1000 {
				select {
				case batches <- rows:
				case <-ctx.Done():
					return
				}
				rows = nil
			}
			if !more {
				if s.Err() != nil {
					stop(s.Err())
				}
				return
			}
		}
	}()
	return batches
}
