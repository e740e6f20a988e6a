// Command lease compares pkg/lease with its peers: the costs of a claim, a renewal and a
// release, and the time until another process claims the node ID of a crashed holder.
//
//	make bench-lease                                  print everything, 5 to 10 minutes
//	scripts/dynamodb-local.sh run -- sh -c 'cd bench/lease && go run . -out ../../docs'
//
// All contenders but etcd use the same DynamoDB Local and the same kind of client. The
// transport of this client counts every request that leaves the process, including retries.
// etcd is embedded in this process, and gRPC interceptors count its requests. Times are
// those of one machine on which everything runs; the numbers of requests are the same on any
// machine.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

func main() {
	var (
		out      = flag.String("out", "", "directory for benchmarks.md and .svg")
		note     = flag.String("note", "", "a remark for the page, such as the machine's other load")
		patience = flag.Duration("patience", time.Minute, "how long a herd may take; what it sent until then is a lower bound")
		quick    = flag.Bool("quick", false, "run herds of 1 and 64 only, to see whether everything works")
	)
	flag.Parse()
	if err := run(context.Background(), *out, *note, *quick, *patience); err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
		os.Exit(1)
	}
}

// Each herd is run herdRuns times, in turns with the others, and the result is the run with
// the median time. A herd that takes longer than longHerd is run once.
const (
	herdRuns = 9
	longHerd = 20 * time.Second
)

func run(ctx context.Context, out, note string, quick bool, patience time.Duration) error {
	local := os.Getenv(dynamotest.EnvLocal)
	if local == "" {
		return fmt.Errorf("%s is not set: run `make bench-lease`, which starts DynamoDB Local", dynamotest.EnvLocal)
	}
	server, err := startEtcd()
	if err != nil {
		return err
	}
	defer server.stop()
	r := &report{machine: describe(), note: note, patience: patience, began: time.Now(), sizes: []int{1, 256, 1024}}
	if quick {
		r.sizes = []int{1, 64}
	}
	contenders := []contender{ours(local), dynamolockInOrder(local), dynamolockAtRandom(local), zeebe(local), etcd(server)}
	for _, c := range contenders {
		if c.name == randomName { // it renews exactly as the other contender with the same library does
			continue
		}
		u, err := upkeep(ctx, c)
		if err != nil {
			return fmt.Errorf("%s, renewals: %w", c.name, err)
		}
		progress("%s renewed: p50 %v", c.name, u.p50)
		r.upkeeps = append(r.upkeeps, u)
	}
	if r.plain, err = comparePlain(ctx, local); err != nil {
		return err
	}
	progress("a renewal takes %.2f of a plain conditional write", r.plain.ratio())
	if r.crashes, err = crashAll(ctx, contenders); err != nil {
		return err
	}
	for _, size := range r.sizes {
		runs := make([][]herdResult, len(contenders))
		for round := range herdRuns {
			for n := range contenders {
				if round%2 == 1 { // reverse the order, since the state of the server changes from the first to the last
					n = len(contenders) - 1 - n
				}
				if round > 0 && runs[n][0].took > longHerd {
					continue
				}
				h, err := herd(ctx, contenders[n], size, patience)
				if err != nil {
					return fmt.Errorf("%s, %d claimants: %w", contenders[n].name, size, err)
				}
				progress("%s", h)
				runs[n] = append(runs[n], h)
			}
		}
		for _, all := range runs {
			slices.SortFunc(all, func(a, b herdResult) int { return cmp.Compare(a.took, b.took) })
			r.herds = append(r.herds, all[len(all)/2])
		}
		if err := r.save(out); err != nil {
			return err
		}
	}
	fmt.Print(r.markdown())
	return nil
}

// save writes the results up to now. It is called several times, because a run takes
// minutes.
func (r *report) save(out string) error {
	r.took, r.endLoad = time.Since(r.began), load()
	if out == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(out, "benchmarks.md"), []byte(r.markdown()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "benchmarks.svg"), []byte(r.picture()), 0o644)
}

func progress(format string, args ...any) {
	fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05"), strings.TrimSpace(fmt.Sprintf(format, args...)))
}
