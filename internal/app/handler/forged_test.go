package handler

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A forged item is an error in the reaper's log. It is counted in the gauge that the
// alarm <pool>-corrupt watches, but only for this pool.
func TestForgedRaisesTheAlarm(t *testing.T) {
	for name, test := range map[string]struct{ partition, node, set, value, want string }{
		"version":              {"orders#0", "1", "version", "3", `"forged":{"1":"version went back from 7 to 3"`},
		"reserved_until":       {"orders#0", "1", "reserved_until", "1000", `"forged":{"1":"reserved_until went back`},
		"an unknown era":       {"orders#0", "2", "widen_try", "9", `"forged":{"2":"it is marked with try 9`},
		"the pool's own item":  {"orders", "-1", "revision", "1", `"forged":{"-1":"revision went back`},
		"the floor of the IDs": {"orders", "-1", "floor", "0", `"forged":{"-1":"floor went back`},
	} {
		t.Run(name, func(t *testing.T) {
			logged, client := logs(t), dynamotest.Embedded(t)
			table := dynamotest.CreateTable(t, client)
			store := lease.NewDynamoDB(client, table)
			pools := []Spec{{"orders", 4, 0}, {"users", 4, 0}}
			for _, p := range pools {
				if _, err := leasepool.Open(store, p.Pool).Seed(t.Context(), leasepool.Spec{Size: p.Size}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := leasepool.Open(store, "orders").Raise(t.Context(), time.Now().Add(-time.Second)); err != nil { // the pool's floor and revision grow
				t.Fatal(err)
			}
			set := func(partition, node, attribute, value string) {
				t.Helper()
				if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
					TableName: &table, Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: partition}, "node_id": &types.AttributeValueMemberN{Value: node}},
					UpdateExpression: aws.String("SET " + attribute + " = :v"), ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberN{Value: value}},
				}); err != nil {
					t.Fatal(err)
				}
			}
			hold(t, store, "orders", 1, time.Hour)
			set("orders#0", "1", "version", "7") // as after seven holders
			r := &Reaper{Store: store, Entries: discovery.NewTable(client, table), Pools: pools}
			if _, err := r.Handle(t.Context()); err != nil || strings.Contains(logged(), `"forged":{"`) {
				t.Fatalf("an honest pool: %v, %s", err, logged())
			}
			set(test.partition, test.node, test.set, test.value)
			if _, err := r.Handle(t.Context()); err != nil || !strings.Contains(logged(), `"level":"ERROR","msg":"reaped","pool":"orders"`) || !strings.Contains(logged(), test.want) {
				t.Errorf("the reaper: %v, logs %s, want %s", err, logged(), test.want)
			}
			cw := &cloudWatch{}
			if _, err := (&Poolmetric{Table: table, Store: store, Metrics: cw, Pools: pools}).Handle(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, d := range cw.calls[0].MetricData {
				if *d.MetricName == "Corrupt" {
					got[*d.Dimensions[1].Value] = *d.Value
				}
			}
			if got["orders"] != 1 || got["users"] != 0 || len(got) != 2 {
				t.Errorf("the gauge Corrupt is %v, want 1 for orders and 0 for users", got)
			}
		})
	}
}
