package handler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/discovery/discoverytest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// invoke calls a handler as the Lambda runtime does.
func invoke(t *testing.T, handler any, name string) (string, error) {
	t.Helper()
	out, err := lambda.NewHandler(handler).Invoke(t.Context(), event(t, name, ""))
	return string(out), err
}

// twoPools returns a store with the pools orders and users.
func twoPools(t *testing.T) *leasetest.Memory {
	t.Helper()
	s := leasetest.NewMemory("orders", 20)
	if _, err := leasepool.Open(s, "users").Seed(t.Context(), leasepool.Spec{Size: 4}); err != nil {
		t.Fatal(err)
	}
	return s
}

var both = []Spec{{"orders", 20, 0}, {"users", 4, 0}}

func hold(t *testing.T, s lease.Store, pool string, node int, ttl time.Duration) {
	t.Helper()
	holdAs(t, s, pool, node, ttl, "")
}

// holdAs does what hold does, for an agent of the given release.
func holdAs(t *testing.T, s lease.Store, pool string, node int, ttl time.Duration, release string) {
	t.Helper()
	var metadata map[string]string
	if release != "" {
		metadata = map[string]string{lease.MetadataLibrary: release}
	}
	res, err := s.Write(t.Context(), protocol.Claim{
		Key: protocol.Key{Pool: pool, NodeID: node}, Session: fmt.Sprint(node), At: time.Now().Add(time.Second), ClaimGuard: time.Second,
		TTL: ttl, ExpiresAt: time.Now().Add(ttl), ReservedUntil: time.Now().Add(ttl + time.Second), Metadata: metadata,
	})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}

// One invocation makes one scan. A later invocation frees the leases that have not changed since.
// The function itself never waits.
func TestReaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged, s := logs(t), twoPools(t)
		for n := range 12 {
			hold(t, s, "orders", n, 15*time.Second)
		}
		hold(t, s, "users", 1, 15*time.Second)
		hold(t, s, "users", 2, time.Hour)
		r := &Reaper{Store: s, Entries: discoverytest.NewMemory(s), Pools: append(both, Spec{Pool: "new"})}
		for _, want := range [][]string{
			{`"pool":"users","held":2,"due":[1],"freed":[],"braked":false,"next_look":"`, `"pool":"orders","held":12,`},
			{`"pool":"users","held":2,"due":[1],"freed":[1],"braked":false,"cleared":0`, `"freed":[],"braked":true`},
			{`"freed":[0,1,2,3,4,5,6,7,8,9,10,11],"braked":false`},
		} {
			<-time.After(2 * time.Minute) // virtual
			began := time.Now()
			out, err := invoke(t, r.Handle, "reaper")
			if err != nil || time.Since(began) > time.Second {
				t.Errorf("after %v: %v, want at most 1 s", time.Since(began), err)
			}
			for _, part := range want {
				if !strings.Contains(out, part) {
					t.Errorf("answer %s\nlacks %s", out, part)
				}
			}
		}
		for _, part := range []string{`"level":"WARN","msg":"reaped","pool":"orders"`, `"level":"INFO","msg":"reaped","pool":"users"`, `not seeded yet","pool":"new"`, `another scan decides`} {
			if !strings.Contains(logged(), part) {
				t.Errorf("logs %s\nlack %s", logged(), part)
			}
		}
	})
}

// The next invocation of a process remembers an outage in the previous one.
func TestReaperRemembersAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs(t)
		s := leasetest.NewMemory("orders", 20)
		hold(t, s, "orders", 1, 15*time.Second)
		hold(t, s, "orders", 2, time.Hour)
		r := &Reaper{Store: s, Entries: discoverytest.NewMemory(s), Pools: both[:1]}
		for i, want := range []string{`"due":[1],"freed":[]`, "time is up", `"due":[1],"freed":[]`, `"freed":[1]`} {
			<-time.After(2 * time.Minute) // virtual
			s.SetOutage(map[bool]error{true: errors.New("away")}[i == 1])
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			out, err := lambda.NewHandler(r.Handle).Invoke(ctx, event(t, "reaper", ""))
			cancel()
			if got := fmt.Sprint(string(out), err); !strings.Contains(got, want) {
				t.Errorf("invocation %d: %s, want %s", i, got, want)
			}
		}
	})
}

// One pool that fails does not stop the others.
func TestReaperFails(t *testing.T) {
	logged := logs(t)
	s := meddled{twoPools(t), func(_ context.Context, pool string, _ int) error {
		if pool == "orders" {
			return lease.ErrAccess
		}
		return nil
	}}
	r := &Reaper{Store: s, Entries: discoverytest.NewMemory(s), Pools: both}
	reports, err := r.Handle(t.Context())
	if !errors.Is(err, lease.ErrAccess) || len(reports) != 2 {
		t.Errorf("got %+v, %v, want 2 and ErrAccess", reports, err)
	}
	errorHas(t, err, `pool "orders"`)
	if !strings.Contains(logged(), `"msg":"pool failed","pool":"orders"`) {
		t.Errorf("logs: %s", logged())
	}
}

// The discovery entries of a process that is gone are cleared once its lease was released
// or reaped.
func TestReaperClearsEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // virtual; ID layouts begin after 2000
		logged, s := logs(t), leasetest.NewMemory("orders", 20)
		entries := discoverytest.NewMemory(s)
		d, err := discovery.New(discovery.Config{Pool: "orders", Store: entries})
		if err != nil {
			t.Fatal(err)
		}
		agent, err := lease.Start(t.Context(), lease.Config{Store: s, Pool: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		here := discovery.Address{Host: "10.0.0.7"}
		if err := d.Register(t.Context(), agent, discovery.Service{Name: "orders", Address: here}, discovery.Endpoint{Name: "shard", Address: here}); err != nil {
			t.Fatal(err)
		}
		r := &Reaper{Store: s, Entries: entries, Pools: both[:1]}
		for _, want := range []string{`"freed":[],"braked":false,"cleared":0`, `"cleared":2`, `"freed":[],"braked":false,"cleared":0`} {
			out, err := invoke(t, r.Handle, "reaper")
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s, %v, want %s", out, err, want)
			}
			_ = agent.Close()
		}
		if !strings.Contains(logged(), `"cleared":2`) {
			t.Errorf("logs: %s", logged())
		}
	})
}

// A discovery entry that nobody can replace is an error of the reaper. The reaper tends the
// pool nevertheless, and logs what it found.
func TestReaperTendsThoughASweepFails(t *testing.T) {
	logged, client := logs(t), dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	store := lease.NewDynamoDB(client, table)
	if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 4}); err != nil {
		t.Fatal(err)
	}
	hold(t, store, "orders", 0, time.Minute)
	if _, err := leasepool.Open(store, "orders").ForceRelease(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	for _, item := range []map[string]any{
		{"pool_group": "orders#registered", "node_id": 0, "holder": "0", "version": 1, "revision": 1, "places": []string{"svc#orders"}},
		{"pool_group": "orders#svc#orders", "node_id": 0, "holder": "0", "version": 9, "revision": 1, "addresses": "by hand"},
	} {
		av, err := attributevalue.MarshalMap(item)
		if err == nil {
			_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: av})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := (&Reaper{Store: store, Entries: discovery.NewTable(client, table), Pools: both[:1]}).Handle(t.Context())
	errorHas(t, err, `pool "orders"`, "orders#svc#orders of node 0", "corrupt item")
	if item, err := store.PoolItem(t.Context(), "orders"); err != nil || item.Verdict == nil {
		t.Errorf("the pool has the verdict %v, %v, want one", item.Verdict, err)
	}
	if !strings.Contains(logged(), `"msg":"reaped","pool":"orders"`) {
		t.Errorf("logs: got %s, want what the reaper found", logged())
	}
}

// hangingEntries are entries that cannot be read until the function's time is up.
type hangingEntries struct{ discovery.Store }

func (hangingEntries) Query(ctx context.Context, _ string) ([]entries.Record, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// The reaper tends the pool even if the entries of services cannot be read, as while their
// partition is throttled.
func TestReaperTendsThoughASweepHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs(t)
		s := leasetest.NewMemory("orders", 2000)
		for node := range 200 {
			hold(t, s, "orders", node, time.Hour)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := (&Reaper{Store: s, Entries: hangingEntries{discoverytest.NewMemory(s)}, Pools: both[:1]}).Handle(ctx)
		errorHas(t, err, `pool "orders"`, "time is up")
		if item, err := s.PoolItem(t.Context(), "orders"); err != nil || item.OpenGroups != 2 {
			t.Errorf("the pool has %d open groups, %v, want 2", item.OpenGroups, err)
		}
	})
}

// cloudWatch collects the published metrics.
type cloudWatch struct {
	calls []*cloudwatch.PutMetricDataInput
	err   error
}

func (c *cloudWatch) PutMetricData(_ context.Context, in *cloudwatch.PutMetricDataInput, _ ...func(*cloudwatch.Options)) (*cloudwatch.PutMetricDataOutput, error) {
	c.calls = append(c.calls, in)
	return &cloudwatch.PutMetricDataOutput{}, c.err
}

func TestPoolmetric(t *testing.T) {
	logged, s, cw := logs(t), twoPools(t), &cloudWatch{}
	hold(t, s, "users", 1, time.Hour)
	for node, release := range []string{"v1.10.0", "v1.9.0", "v1.10.0"} {
		holdAs(t, s, "orders", node, time.Hour, release)
	}
	before := time.Now()
	specs := []Spec{{"orders", 25, 0}, {"users", 4, 0}, {Pool: "new"}}
	out, err := invoke(t, (&Poolmetric{Table: "nodelease", Store: s, Metrics: cw, Pools: specs}).Handle, "poolmetric")
	if err != nil || !strings.Contains(out, `"held":1`) {
		t.Fatalf("%s, %v", out, err)
	}
	if len(cw.calls) != 1 || *cw.calls[0].Namespace != "Nodelease" || len(cw.calls[0].MetricData) != 22 {
		t.Fatalf("%+v", cw.calls)
	}
	got := map[string]string{}
	for _, d := range cw.calls[0].MetricData {
		if d.Timestamp.Before(before) || len(d.Dimensions) != 2 || *d.Dimensions[0].Name != "Table" || *d.Dimensions[0].Value != "nodelease" || *d.Dimensions[1].Name != "Pool" {
			t.Errorf("%s: %v, %v", *d.MetricName, d.Timestamp, d.Dimensions)
		}
		got[*d.Dimensions[1].Value+" "+*d.MetricName] = fmt.Sprint(*d.Value, " ", d.Unit)
	}
	for name, want := range map[string]string{
		"users Capacity": "4 Count", "users Held": "1 Count", "users Free": "3 Count", "users Claimable": "3 Count", "users Expired": "0 Count", "users Cooling": "0 Count",
		"users Retired": "0 Count", "users Utilization": "25 Percent", "orders Capacity": "20 Count", "orders Utilization": "15 Percent",
		"users Corrupt": "0 Count", "users Stuck": "0 Count", "users Braked": "0 Count",
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	if !strings.Contains(logged(), `"level":"WARN","msg":"measured","pool":"orders"`) || !strings.Contains(logged(), `"size":20,"declared_size":25`) {
		t.Errorf("the logs do not report that the size differs: %s", logged())
	}
	if !strings.Contains(logged(), `"releases":[{"release":"v1.9.0","held":1},{"release":"v1.10.0","held":2}]`) {
		t.Errorf("the logs do not list the live releases, oldest first: %s", logged())
	}
}

// While all tasks have crashed and their node IDs are still reserved, none can be claimed,
// although none is held. Once the reserved time has passed, all can be claimed.
func TestPoolmetricOfARestingPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs(t)
		s, cw := twoPools(t), &cloudWatch{}
		for node := range 4 {
			res, err := s.Write(t.Context(), protocol.Claim{
				Key: protocol.Key{Pool: "users", NodeID: node}, Session: fmt.Sprint(node), At: time.Now().Add(time.Second), ClaimGuard: time.Second,
				TTL: 15 * time.Second, ExpiresAt: time.Now().Add(15 * time.Second), ReservedUntil: time.Now().Add(time.Hour),
			})
			if err != nil || !res.Applied {
				t.Fatal(res, err)
			}
		}
		for _, want := range []string{"0 claimable, 0 % held", "4 claimable, 0 % held"} {
			time.Sleep(time.Hour / 2)
			if _, err := (&Poolmetric{Store: s, Metrics: cw, Pools: both[1:]}).Handle(t.Context()); err != nil {
				t.Fatal(err)
			}
			gauges := map[string]float64{}
			for _, d := range cw.calls[len(cw.calls)-1].MetricData {
				gauges[*d.MetricName] = *d.Value
			}
			if got := fmt.Sprintf("%v claimable, %v %% held", gauges["Claimable"], gauges["Utilization"]); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// The gauges of pools that were measured are published, and a pool that could not be
// measured is an error.
func TestPoolmetricFails(t *testing.T) {
	logs(t)
	cw := &cloudWatch{err: errors.New("denied")}
	s := meddled{twoPools(t), func(_ context.Context, pool string, _ int) error {
		if pool == "orders" {
			return lease.ErrAccess
		}
		return nil
	}}
	stats, err := (&Poolmetric{Store: s, Metrics: cw, Pools: both}).Handle(t.Context())
	errorHas(t, err, `pool "orders"`, "11 metrics were not published", "denied")
	if len(stats) != 1 || len(cw.calls) != 1 {
		t.Errorf("%+v, %d calls", stats, len(cw.calls))
	}
}

// The metrics are published in several calls, since CloudWatch accepts a thousand per call.
func TestPoolmetricManyPools(t *testing.T) {
	logs(t)
	s, cw := leasetest.NewMemory("", 0), &cloudWatch{}
	var specs []Spec
	for i := range 150 {
		specs = append(specs, Spec{fmt.Sprintf("pool-%d", i), 1, 0})
		if _, err := leasepool.Open(s, specs[i].Pool).Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&Poolmetric{Store: s, Metrics: cw, Pools: specs}).Handle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(cw.calls) != 2 || len(cw.calls[0].MetricData) != 1000 || len(cw.calls[1].MetricData) != 650 {
		t.Errorf("%d calls", len(cw.calls))
	}
}
