//go:build linux

// Stranger checks sentences on which users of five other projects rely, with the public API of Nodelease. It prints a
// line for each sentence: seen, not seen, or that Nodelease differs on purpose.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
)

// A topic tries some sentences in a pool or cluster of its own, and records a verdict on each under its ID.
type topic struct {
	run func(context.Context, *world) error
	ids string
}

var topics = []topic{
	{zeebeBootstrap, "Z1 Z2 Z3 Z4 Z5"},
	{zeebeHandover, "Z6 Z7 Z8 Z9 Z10"},
	{zeebeTimedOut, "Z11 Z12"},
	{zeebeLongExpired, "Z13"},
	{zeebeRenewals, "Z14 Z15"},
	{zeebeReadiness, "Z16 Z17 Z18 Z19 Z20"},
	{zeebeSilentMember, "Z21"},
	{zeebeRenewalFails, "Z22 Z23 Z24 Z25 Z26"},
	{zeebeScale, "Z27"},
	{zeebeCorrupt, "Z28"},
	{etcdUnique, "S1 S2 S3 S4"},
	{etcdReuse, "S5 S6 S7"},
	{etcdClockBehind, "S8"},
	{etcdReport, "S9 S10"},
	{etcdDrift, "S11 S12 S13"},
	{etcdOutage, "S14 S15"},
	{clusterMembers, "C1 C2 C3 C4 C5"},
	{clusterListener, "C6 C7 C8"},
	{clusterFatal, "C9 C10"},
	{clusterSilence, "C11 C12 C13"},
	{clusterLeader, "C14 C15"},
	{microNumbers, "M1 M2 M3"},
	{microWidth, "M4 M5 M6"},
	{microServices, "M7 M8 M9 M10 M11"},
	{practiceDeadline, "P1 P2 P3"},
	{practicePause, "P4 P5"},
	{practicePool, "P6 P7"},
	{practiceOrdinal, "P8"},
}

// A world is the environment that all topics share.
type world struct {
	endpoint, table, run string
	client               *dynamodb.Client

	mu       sync.Mutex
	verdicts map[string]string
}

// judge records that a sentence was seen, or what happened instead.
func (w *world) judge(id string, problems ...error) {
	for _, err := range problems {
		if err != nil {
			w.set(id, "not seen: "+strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
	}
	w.set(id, "seen")
}

// differs records a difference that docs/migration.md lists, if the difference was seen.
func (w *world) differs(id, how string, problems ...error) {
	w.judge(id, problems...)
	if w.verdicts[id] == "seen" {
		w.set(id, "they do, we do: "+how)
	}
}

func (w *world) set(id, verdict string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdicts[id] = verdict
}

// pool returns the name of a pool that no other topic or run has.
func (w *world) pool(name string) string { return name + "-" + w.run }

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "child-") {
		if err := child(os.Args[1], os.Args[2:]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	w := &world{run: strconv.FormatInt(time.Now().UnixMilli(), 36), verdicts: map[string]string{}}
	flag.StringVar(&w.endpoint, "endpoint", "http://127.0.0.1:8000", "URL of a DynamoDB")
	flag.StringVar(&w.table, "table", "stranger", "table of the leases")
	only := flag.String("only", "", "try only the topics with this sentence")
	flag.Parse()
	ok, err := w.tryAll(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func (w *world) tryAll(only string) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 170*time.Second)
	defer cancel()
	if w.client, err = lease.OpenClient(ctx, w.endpoint); err != nil {
		return false, err
	}
	began := time.Now()
	var all sync.WaitGroup
	for _, t := range topics {
		if !strings.Contains(" "+t.ids+" ", " "+only) {
			continue
		}
		all.Go(func() {
			err := t.run(ctx, w)
			for _, id := range strings.Fields(t.ids) {
				w.mu.Lock()
				if w.verdicts[id] == "" {
					w.verdicts[id] = fmt.Sprintf("not seen: not tried: %v", err)
				}
				w.mu.Unlock()
			}
		})
	}
	all.Wait()

	seen, differ, not := 0, 0, 0
	for _, s := range sentences {
		v := w.verdicts[s.id]
		switch {
		case v == "":
			continue
		case v == "seen":
			seen++
		case strings.HasPrefix(v, "they do"):
			differ++
		default:
			not++
		}
		fmt.Printf("%-4s %q: %s\n", s.id, s.text, v)
	}
	fmt.Printf("%d seen, %d differ on purpose, %d not seen, in %.0f s\n", seen, differ, not, time.Since(began).Seconds())
	return not == 0, nil
}
