package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// made is the answer of the function of examples/lambda.
type made struct {
	IDs     []snowflake.ID `json:"ids"`
	NodeID  int            `json:"node_id"`
	Version int64          `json:"version"`
	took    time.Duration
}

// TestLambda invokes the function of examples/lambda a thousand times, by fifty callers
// at once: each environment has a node ID of its own, and no ID is made twice.
func TestLambda(t *testing.T) {
	const callers, each, count = 50, 20, 100
	s := openStack(t, "http://127.0.0.1:"+emulator(t, "lambda"), "NodeleaseLambda")
	function := s.output(t, "NodeleaseLambda", "Function")
	client := lambda.NewFromConfig(s.config, func(o *lambda.Options) { o.RetryMaxAttempts = 10 })
	answers := make([][]made, callers)
	var all sync.WaitGroup
	began := time.Now()
	for c := range callers {
		all.Go(func() {
			for range each {
				m, err := invoke(t, client, function, count)
				if err != nil {
					t.Error(err)
					return
				}
				answers[c] = append(answers[c], m)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if t.Failed() {
		return
	}

	ids := map[snowflake.ID]bool{}
	type environment struct {
		node    int
		version int64
	}
	environments := map[environment]int{}
	var times []time.Duration
	for _, some := range answers {
		for _, m := range some {
			environments[environment{m.NodeID, m.Version}]++
			times = append(times, m.took)
			for _, id := range m.IDs {
				if ids[id] {
					t.Fatalf("%d was made twice", id)
				}
				ids[id] = true
			}
		}
	}
	if want := callers * each * count; len(ids) != want {
		t.Errorf("got %d IDs, want %d", len(ids), want)
	}
	// An environment handles one invocation at a time, and most invocations find an environment that already
	// exists.
	if n := len(environments); n < 2 || n > callers {
		t.Errorf("%d environments leased a node ID, want 2 to %d for %d callers", n, callers, callers)
	}
	stats, err := leasepool.Open(s.store, poolName).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.OnDemand != len(environments) || stats.Held != len(environments) {
		t.Errorf("the table has %d holders, %d on demand, want the %d environments: %+v", stats.Held, stats.OnDemand, len(environments), stats)
	}
	slices.Sort(times)
	t.Logf("%d IDs in %d invocations by %d callers, %d environments, none twice; %v, an invocation %v at the median, %v at the 99th percentile", len(ids), len(times), callers,
		len(environments), took.Round(time.Millisecond), times[len(times)/2].Round(time.Millisecond), times[len(times)*99/100].Round(time.Millisecond))
}

// invoke asks the function for IDs.
func invoke(t *testing.T, client *lambda.Client, function string, count int) (m made, err error) {
	began := time.Now()
	out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &function, Payload: fmt.Appendf(nil, `{"count":%d}`, count)})
	if err != nil {
		return m, err
	}
	if out.FunctionError != nil {
		return m, fmt.Errorf("the function fails: %s: %s", aws.ToString(out.FunctionError), out.Payload)
	}
	m.took = time.Since(began)
	return m, json.Unmarshal(out.Payload, &m)
}
