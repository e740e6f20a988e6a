package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// ward is a database for the doctor to examine. It simulates features that no emulator has
// (enabled Time to Live, replicas, permissions).
type ward struct {
	*dynamodb.Client
	t        *testing.T
	table    string
	denied   string // the calls that are denied
	slow     string // the reason that DynamoDB gives when it throttles writes; empty: it does not throttle
	ttl      *types.TimeToLiveDescription
	replicas []types.ReplicaDescription
	strong   bool
	clock    time.Duration // how far this machine's clock is ahead of the true time
	writes   int           // how many of the doctor's writes took effect
}

func (w *ward) deny(call string) error {
	if strings.Contains(w.denied, call) {
		return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:" + call}
	}
	return nil
}

func (w *ward) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	if err := w.deny("DescribeTable"); err != nil {
		return nil, err
	}
	out, err := w.Client.DescribeTable(ctx, in, o...)
	if err == nil {
		out.Table.Replicas = w.replicas
		if w.strong {
			out.Table.MultiRegionConsistency = types.MultiRegionConsistencyStrong
		}
	}
	return out, err
}

func (w *ward) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	if w.ttl != nil {
		return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: w.ttl}, w.deny("DescribeTimeToLive")
	}
	if err := w.deny("DescribeTimeToLive"); err != nil {
		return nil, err
	}
	return w.Client.DescribeTimeToLive(ctx, in, o...)
}

func (w *ward) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if err := w.deny("GetItem"); err != nil {
		return nil, err
	}
	return w.Client.GetItem(ctx, in, o...)
}

func (w *ward) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if err := w.deny("Query"); err != nil {
		return nil, err
	}
	return w.Client.Query(ctx, in, o...)
}

func (w *ward) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := w.deny("UpdateItem"); err != nil {
		return nil, err
	}
	if w.slow != "" {
		return nil, &types.ThrottlingException{Message: aws.String("slow down"), ThrottlingReasons: []types.ThrottlingReason{{Reason: &w.slow, Resource: &w.table}}}
	}
	out, err := w.Client.UpdateItem(ctx, in, o...)
	if err == nil {
		w.writes++
	}
	return out, err
}

// seedAs seeds a pool of any kind.
func (w *ward) seedAs(pool string, spec leasepool.Spec) {
	w.t.Helper()
	if _, err := leasepool.Open(lease.NewDynamoDB(w.Client, w.table), pool).Seed(w.t.Context(), spec); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	if err := w.deny("Scan"); err != nil {
		return nil, err
	}
	return w.Client.Scan(ctx, in, o...)
}

func (w *ward) seed(pool string, size int) {
	w.t.Helper()
	if _, err := leasepool.Open(lease.NewDynamoDB(w.Client, w.table), pool).Seed(w.t.Context(), leasepool.Spec{Size: size}); err != nil {
		w.t.Fatal(err)
	}
}

// put writes an item without any condition, which no product code does.
func (w *ward) put(item map[string]any) {
	w.t.Helper()
	av, err := attributevalue.MarshalMap(item)
	if err == nil {
		_, err = w.PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: av})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// number returns the item of a held node ID of the pool orders.
func number(node int, expires time.Time, more map[string]any) map[string]any {
	item := map[string]any{
		"pool_group": "orders#0", "node_id": node, "version": 3, "renewal": 1, "holder": fmt.Sprint("session", node), "task": fmt.Sprint("task", node), "lease_ms": 15000,
		"expires_at": expires.UnixMilli(), "not_before": expires.Add(-time.Minute).UnixMilli(), "reserved_until": expires.Add(time.Second).UnixMilli(),
	}
	for k, v := range more {
		item[k] = v
	}
	return item
}

func (w *ward) examine() diagnosis {
	g := &globals{table: w.table, pool: "orders"}
	d := &doctor{globals: g, client: w, now: func() time.Time { return time.Now().Add(w.clock) }}
	return d.examine(w.t.Context())
}

// The doctor reports each possible fault in one line, with the remedy, and changes nothing.
func TestDoctor(t *testing.T) {
	soon, long := time.Now().Add(10*time.Minute), time.Now().Add(-time.Hour)
	two, err := leasepool.ParseLayout("41/1/21") // holds two node IDs
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		prepare func(w *ward)
		check   string
		level   string
		text    string
		fix     string
	}{
		{"well", func(w *ward) { w.seed("orders", 4) }, "pool", fine, "orders has all of its 4 node IDs", ""},
		{"no table", func(w *ward) { w.table = "nodelease-no-such-table" }, "table", problem, "does not exist", "aws dynamodb create-table --table-name nodelease-no-such-table "},
		{"wrong keys", func(w *ward) { w.table = otherKeys(w.t, w.Client, fmt.Sprintf("other-%d", time.Now().UnixNano())) }, "keys", problem, "has the keys", "aws dynamodb create-table --table-name nodelease "},
		{"wrong keys of the table of the fix", func(w *ward) { w.table = otherKeys(w.t, w.Client, "nodelease") }, "keys", problem, "has the keys", "aws dynamodb create-table --table-name nodelease-leases "},
		{"TTL", func(w *ward) {
			w.ttl = &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusEnabled, AttributeName: aws.String("expires_at")}
		}, "ttl", problem, "on for the attribute expires_at", "--time-to-live-specification Enabled=false,AttributeName=expires_at"},
		{"MREC", func(w *ward) { w.replicas = []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}} }, "replication", problem, "MREC", `--replica-updates '[{"Delete":{"RegionName":"eu-west-1"}}]'`},
		{"MRSC", func(w *ward) {
			w.replicas, w.strong = []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}}, true
		}, "replication", fine, "MRSC", ""},
		{"no write", func(w *ward) { w.denied = "UpdateItem" }, "permissions", problem, "lack dynamodb:UpdateItem", `"dynamodb:LeadingKeys":["orders#reaper","orders#card#*"]`},
		{"no read", func(w *ward) { w.denied = "GetItem Query" }, "permissions", problem, "lack dynamodb:GetItem, dynamodb:Query", "put-role-policy"},
		{"no describe", func(w *ward) { w.denied = "DescribeTable DescribeTimeToLive" }, "permissions", problem, "lack dynamodb:DescribeTable", `{"Action":["dynamodb:DescribeTable"],"Effect":"Allow"`},
		{"hot key", func(w *ward) { w.slow = "TableWriteKeyRangeThroughputExceeded" }, "throttling", problem, "dynamodb:UpdateItem was throttled: one partition", "nodelease resize --size N --expect HOLDERS"},
		{"throttled table", func(w *ward) { w.slow = "TableWriteMaxOnDemandThroughputExceeded" }, "throttling", problem, "the table is at the throughput that it was given", "aws dynamodb describe-table"},
		{"throttled account", func(w *ward) { w.slow = "TableWriteAccountLimitExceeded" }, "throttling", problem, "the account is at its quota", "aws service-quotas list-service-quotas --service-code dynamodb"},
		{"throttled without a reason", func(w *ward) { w.slow = "other" }, "throttling", problem, "does not say which limit", ""},
		{"TTL denied", func(w *ward) { w.denied = "DescribeTimeToLive" }, "ttl", skipped, "AccessDeniedException", ""},
		{"clock ahead", func(w *ward) { w.clock = time.Minute }, "clock", problem, "ahead of DynamoDB's", "chronyc makestep"},
		{"clock behind", func(w *ward) { w.clock = -time.Minute }, "clock", problem, "behind DynamoDB's", "chronyc makestep"},
		{"not seeded", func(*ward) {}, "pool", problem, "orders is not seeded", "nodelease seed --size N --table "},
		{"half-seeded", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 1, "version": 0, "reserved_until": 1})
		}, "pool", problem, "half-seeded: it has at least 1 node IDs", "nodelease seed --size N"},
		{"half-seeded above the first group", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders#2", "node_id": 600, "version": 0, "reserved_until": 1})
		}, "pool", problem, "half-seeded: it has at least 1 node IDs", "nodelease seed --size N"},
		{"the pool's own item was deleted", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 1, "version": 3, "reserved_until": 1})
		}, "pool", problem, "the pool's own item was deleted, with the layout of all IDs", "nodelease seed --size N --layout LAYOUT --floor +1m"},
		{"node IDs missing", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders", "node_id": -1, "item_format": 2, "revision": 1, "floor": 0, "pool_size": 300, "open_groups": 2, "exclude_below": 10})
		}, "pool", problem, "290 of its 290 node IDs are missing", "nodelease seed --size 300 --floor +1m --exclude-below 10"},
		{"a node ID missing, and an item beyond the pool corrupt", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 9, "version": "three"})
			w.put(map[string]any{"pool_group": "orders", "node_id": -1, "item_format": 2, "revision": 1, "floor": 0, "pool_size": 5, "open_groups": 1, "exclude_below": 0})
		}, "pool", problem, "1 of its 5 node IDs are missing", "nodelease seed --size 5"},
		{"narrow", func(w *ward) { w.seedAs("orders", leasepool.Spec{Size: 1000, Narrow: true}) }, "pool", fine, "has all of its 512 node IDs", ""},
		{"width unfinished", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{
				"pool_group": "orders", "node_id": -1, "item_format": 2, "revision": 1, "floor": 0, "pool_size": 4, "open_groups": 1, "exclude_below": 0, "eras": []any{map[string]any{"from": 0, "node_bits": 9}},
				"widen_try": 1, "widen_from": 1, "widen_bits": 10, "widen_state": "open", "exist_below": 4,
			})
		}, "pool", warning, "to 10 bits was not finished", "nodelease resize --size 4"},
		{"resize unfinished", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 4, "version": 0, "reserved_until": 1})
		}, "pool", problem, "not finished: node ID 4", "nodelease resize --size 4"},
		{"layout unfinished", func(w *ward) {
			w.seedAs("orders", leasepool.Spec{Size: 2, Layout: two})
			store := lease.NewDynamoDB(w.Client, w.table)
			item, err := store.PoolItem(w.t.Context(), "orders")
			if err == nil {
				_, err = store.WritePool(w.t.Context(), protocol.SuspendLayout{Pool: "orders", Revision: item.Revision})
			}
			if err != nil {
				w.t.Fatal(err)
			}
		}, "layout", problem, "a set-layout of orders, which had 41/1/21, was not finished", "nodelease set-layout LAYOUT --table "},
		{"format", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders", "node_id": -1, "item_format": 99, "pool_size": 4})
		}, "pool", problem, "item format 99", "go install"},
		{"pool corrupt", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders", "node_id": -1, "item_format": 2, "revision": 1, "floor": 0, "pool_size": -4})
		}, "pool", problem, "is corrupt", "get-item"},
		{"narrow without node IDs", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{
				"pool_group": "orders", "node_id": -1, "item_format": 2, "revision": 1, "floor": 0, "pool_size": 4, "open_groups": 1, "exclude_below": 0, "eras": []any{map[string]any{"from": 0, "node_bits": 9}},
				"widen_try": 0, "widen_from": 0, "widen_bits": 9, "widen_state": "done",
			})
		}, "pool", problem, "exist_below 0", "get-item"},
		{"an old format", func(w *ward) {
			w.put(map[string]any{"pool_group": "orders", "node_id": -1, "item_format": 1, "pool_size": 4})
		}, "pool", problem, "seed a new pool", ""},
		{"node ID corrupt", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 2, "version": "three"})
		}, "items", problem, "node 2", "nodelease inspect 2"},
		{"node ID forged", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "orders#reaper", "node_id": 1, "watermarks": "1.3.1"}) // node 1 had version 3, and has 0
		}, "forged", problem, "something other than Nodelease wrote node 1: version went back", ""},
		{"pool forged", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "orders#reaper", "node_id": -1, "watermarks": "99 0 0"})
		}, "forged", problem, "something other than Nodelease wrote the pool's own item: revision went back from 99", "nodelease seed --size N --layout LAYOUT --floor TIME"},
		{"stuck", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 2, "version": 0, "reserved_until": time.Now().Add(9 * time.Hour).UnixMilli()})
		}, "items", problem, "stuck", "nodelease resize --size 5"},
		{"forgotten", func(w *ward) { w.seed("orders", 4); w.put(number(1, long, nil)) }, "items", warning, "is the reaper running? node ID 1", "nodelease reap"},
		{"exhausted", func(w *ward) { w.seed("orders", 1); w.put(number(0, soon, nil)) }, "room", problem, "no task can start", "nodelease resize --size 2"},
		{"all reserved", func(w *ward) {
			w.seed("orders", 2)
			w.put(number(0, soon, nil))
			w.put(number(1, long, map[string]any{"reserved_until": time.Date(2150, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()}))
		}, "room", warning, "1 of 2 node IDs are held, and all others are still reserved: no task can start before 2150-01-02T03:04:05.000Z", "nodelease resize --size 4"},
		{"all before the floor", func(w *ward) {
			w.seedAs("orders", leasepool.Spec{Size: 2, Floor: time.Now().Add(time.Hour)})
		}, "room", warning, "; a larger pool has no room sooner, since new node IDs begin at the floor, ", ""},
		{"the layout is exhausted", func(w *ward) {
			w.seedAs("orders", leasepool.Spec{Size: 2, Layout: two})
			w.put(number(0, soon, nil))
			w.put(number(1, soon, nil))
		}, "room", problem, "no task can start; move the fleet to another pool", "nodelease seed --size N --layout LAYOUT --floor TIME"},
		{"stuck in a layout without room", func(w *ward) {
			w.seedAs("orders", leasepool.Spec{Size: 2, Layout: two})
			w.put(map[string]any{"pool_group": "orders#0", "node_id": 1, "version": 0, "reserved_until": time.Now().Add(9 * time.Hour).UnixMilli()})
		}, "items", problem, "for more room until then, move the fleet to another pool", "--pool NEW"},
		{"two releases", func(w *ward) {
			w.seed("orders", 9)
			w.put(number(1, soon, map[string]any{"metadata": map[string]string{"lib": "v1.0.0"}}))
			w.put(number(2, soon, map[string]any{"metadata": map[string]string{"lib": "v1.1.0"}}))
			w.put(number(3, soon, nil))
		}, "releases", warning, "unknown (1), v1.0.0 (1), v1.1.0 (1)", "nodelease list --state held -o wide"},
		{"two pools", func(w *ward) { w.seed("orders", 9); w.seed("users", 5) }, "other pools", warning, "can make equal IDs: orders and users", "--pool NEW"},
		{"two pools, one narrow", func(w *ward) {
			w.seedAs("orders", leasepool.Spec{Size: 4, Narrow: true})
			w.seedAs("users", leasepool.Spec{Size: 516, ExcludeBelow: 512})
		}, "other pools", warning, "can make equal IDs: orders and users", "--pool NEW"},
		{"two pools, one with a retired node ID that is held", func(w *ward) {
			w.seed("orders", 4)
			w.seedAs("users", leasepool.Spec{Size: 6, ExcludeBelow: 2})
			w.put(number(3, soon, nil))
			if _, err := leasepool.Open(lease.NewDynamoDB(w.Client, w.table), "orders").Resize(w.t.Context(), leasepool.Spec{Size: 2}); err != nil {
				w.t.Fatal(err)
			}
		}, "other pools", warning, "can make equal IDs: orders and users", "--pool NEW"},
		{"two pools with separate node IDs", func(w *ward) {
			w.seed("orders", 4)
			w.seedAs("users", leasepool.Spec{Size: 8, ExcludeBelow: 4})
		}, "other pools", fine, "none of the table's other 1 can make the same ID as orders", ""},
		{"two pools with separate node IDs, after the reaper", func(w *ward) {
			w.seedAs("orders", leasepool.Spec{Size: 4})
			w.seedAs("users", leasepool.Spec{Size: 8, ExcludeBelow: 4})
			for _, p := range []string{"orders", "users"} {
				if _, err := leasepool.Open(lease.NewDynamoDB(w.Client, w.table), p).Reap(w.t.Context()); err != nil {
					w.t.Fatal(err)
				}
			}
		}, "other pools", fine, "none of the table's other 1 can make the same ID as orders", ""},
		{"two other pools with equal node IDs", func(w *ward) {
			w.seed("orders", 4)
			w.seedAs("users", leasepool.Spec{Size: 8, ExcludeBelow: 4})
			w.seedAs("more", leasepool.Spec{Size: 8, ExcludeBelow: 4})
		}, "other pools", fine, "none of the table's other 2 can make the same ID as orders", ""},
		{"two other pools with equal node IDs, before the seed", func(w *ward) { w.seed("users", 8); w.seed("more", 8) }, "other pools", skipped, "orders has no item to compare with", ""},
		{"another pool that cannot be read", func(w *ward) {
			w.seed("orders", 4)
			w.put(map[string]any{"pool_group": "users", "node_id": -1})
		}, "other pools", skipped, "not compared, since their items cannot be read: users", ""},
		{"no Scan", func(w *ward) { w.denied = "Scan" }, "other pools", skipped, "AccessDeniedException", ""},
	} {
		onEach(t, test.name, func(t *testing.T, w *ward) {
			test.prepare(w)
			r, found := w.examine(), false
			for _, f := range r.Findings {
				if strings.Contains(f.Text+f.Fix, "\n") {
					t.Errorf("got more than one line: %q", f)
				}
				if f.Level == problem && r.OK {
					t.Errorf("got %q, though nothing is wrong", f)
				}
				if f.Check == test.check && f.Level == test.level && strings.Contains(f.Text, test.text) && strings.Contains(f.Fix, test.fix) {
					found = true
				}
			}
			if !found {
				t.Errorf("want the finding in: %s", r.text(io.Discard))
			}
			if w.writes > 0 {
				t.Errorf("got %d writes that took effect, want none", w.writes)
			}
		})
	}
}

// The doctor reports no problem on a healthy pool.
func TestDoctorWell(t *testing.T) {
	onEach(t, "well", func(t *testing.T, w *ward) {
		w.seed("orders", 4)
		if r := w.examine(); !r.OK || r.err() != nil || r.count(fine) != len(r.Findings) {
			t.Errorf("got %v, want no problem\n%s", r.err(), r.text(io.Discard))
		}
	})
}

// onEach runs a test with the embedded DynamoDB and, if installed, with DynamoDB Local.
func onEach(t *testing.T, name string, test func(*testing.T, *ward)) {
	t.Run(name, func(t *testing.T) {
		dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
			test(t, &ward{Client: client, t: t, table: table})
		})
	})
}

// otherKeys creates a table with keys that Nodelease does not use.
func otherKeys(t *testing.T, client *dynamodb.Client, name string) string {
	t.Helper()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Error(err)
		}
	})
	return name
}
