package sim

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"

	"github.com/nodelease/nodelease/internal/app/handler"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The Lambda functions run on a schedule, each on a machine of its own with troubles of
// its own. An invocation ends with Lambda's time-out at the latest. The next invocation
// does not wait for its end.
const (
	schedule   = time.Minute
	reaperTime = 300 * time.Second
	metricTime = 60 * time.Second
)

// function is one of the Lambda functions: the machine on which it runs, and its client.
type function struct {
	*machine
	client lease.Client
}

func (w *World) newFunction() *function {
	p := &process{machine: w.newMachine(), number: 0, dead: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.functions[p.host] = true
	return &function{p.machine, p.client()}
}

// isFunction reports whether a machine runs a Lambda function.
func (w *World) isFunction(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.functions[host]
}

// invoke invokes a function on its schedule until ctx ends.
func (f *function) invoke(ctx context.Context, limit time.Duration, handle func(ctx context.Context)) {
	f.World.background.Go(func() { f.live(ctx) })
	for sleep(ctx, schedule) == nil {
		f.World.background.Go(func() {
			one, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			handle(one)
		})
	}
}

// reaper runs the reaper function, which frees the leases and clears the entries of dead
// processes.
func (w *World) reaper(ctx context.Context) {
	f := w.newFunction()
	w.reaping.Store(f.machine)
	r := &handler.Reaper{Store: lease.NewDynamoDB(f.client, tableName), Entries: discovery.NewTable(f.client, tableName), Pools: w.specs()}
	f.invoke(ctx, reaperTime, func(ctx context.Context) {
		reports, _ := r.Handle(ctx) // its writes are witnessed at the table
		for _, report := range reports {
			w.count(func(c *Counts) { c.Reaped += len(report.Freed) })
		}
	})
}

// poolmetric runs the poolmetric function, which measures the pool.
func (w *World) poolmetric(ctx context.Context) {
	f := w.newFunction()
	p := &handler.Poolmetric{Table: tableName, Store: lease.NewDynamoDB(f.client, tableName), Metrics: published{w}, Pools: w.specs()}
	f.invoke(ctx, metricTime, func(ctx context.Context) { _, _ = p.Handle(ctx) })
}

// specs returns the pools as the functions' environment describes them.
func (w *World) specs() []handler.Spec {
	return []handler.Spec{{Pool: poolName, Size: w.Plan.Exclude + w.Plan.NodeIDs, ExcludeBelow: w.Plan.Exclude}}
}

// published counts the calls that would publish metrics to CloudWatch.
type published struct{ *World }

func (p published) PutMetricData(context.Context, *cloudwatch.PutMetricDataInput, ...func(*cloudwatch.Options)) (*cloudwatch.PutMetricDataOutput, error) {
	p.count(func(c *Counts) { c.Measured++ })
	return &cloudwatch.PutMetricDataOutput{}, nil
}
