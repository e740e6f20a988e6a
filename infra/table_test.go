package main

import (
	"reflect"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const tableType = "AWS::DynamoDB::GlobalTable"

func TestTable(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(nil))
	checker := assertions.Template_FromStack(stack, nil)
	checker.HasResource(jsii.String(tableType), map[string]any{
		"DeletionPolicy":      "Retain",
		"UpdateReplacePolicy": "Retain",
		"Properties": map[string]any{
			"BillingMode": "PAY_PER_REQUEST",
			"KeySchema": []any{
				map[string]any{"AttributeName": "pool_group", "KeyType": "HASH"},
				map[string]any{"AttributeName": "node_id", "KeyType": "RANGE"},
			},
			"Replicas": []any{map[string]any{
				"DeletionProtectionEnabled":        true,
				"PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": true},
			}},
		},
	})

	// DynamoDB would delete expired leases, and with them the history that the next holder needs.
	table := template(t, stack).one(t, tableType).Properties
	for _, never := range []string{"TimeToLiveSpecification", "StreamSpecification", "GlobalSecondaryIndexes", "LocalSecondaryIndexes", "MultiRegionConsistency"} {
		if value, ok := table[never]; ok {
			t.Errorf("the table has %s: %v", never, value)
		}
	}
}

func TestThrowawayTable(t *testing.T) {
	table := template(t, stackOf(sample(t, map[string]any{"throwaway": "true"}), "Nodelease")).one(t, tableType)
	replica := table.Properties["Replicas"].([]any)[0].(map[string]any)
	if table.DeletionPolicy != "Delete" || replica["DeletionProtectionEnabled"] != false {
		t.Errorf("DeletionPolicy is %s and the protection %v: the stack could not be destroyed", table.DeletionPolicy, replica["DeletionProtectionEnabled"])
	}
}

// If a first deployment fails, an unprotected table is deleted. A protected table cannot be deleted, so it stays. If CloudFormation made
// the name of that table, the table does not block the next deployment.
func TestFirstDeploymentThatFails(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.TableName, p.AllowDeletion = "node-ids", true }))
	if table := template(t, stack).one(t, tableType); table.DeletionPolicy != "RetainExceptOnCreate" {
		t.Errorf("DeletionPolicy is %s, want RetainExceptOnCreate", table.DeletionPolicy)
	}
	stack = newStack(t, "")
	nodepool.New(stack, "Nodes", orders(nil))
	if table := template(t, stack).one(t, tableType); table.DeletionPolicy != "Retain" || table.Properties["TableName"] != nil {
		t.Errorf("DeletionPolicy is %s and the name %v, want Retain and none", table.DeletionPolicy, table.Properties["TableName"])
	}
}

// A new table can take the writes of 12,000 holders. For more holders, the table is warmed.
func TestWarmTable(t *testing.T) {
	for expect, want := range map[int]any{0: nil, 12_000: nil, 30_000: map[string]any{"WriteUnitsPerSecond": 10_000.0}} {
		stack := newStack(t, "")
		nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Size, p.Pools[0].Expect = 32_768, expect }))
		if got := template(t, stack).one(t, tableType).Properties["WarmThroughput"]; !reflect.DeepEqual(got, want) {
			t.Errorf("Expect %d: WarmThroughput is %v, want %v", expect, got, want)
		}
	}
}

func TestMultiRegionTable(t *testing.T) {
	for name, edit := range map[string]func(*nodepool.Props){
		"three replicas": func(p *nodepool.Props) { p.Replicas = []string{"us-east-2", "us-west-2"} },
		"witness":        func(p *nodepool.Props) { p.Replicas, p.Witness = []string{"us-east-2"}, "us-west-2" },
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "us-east-1")
			props := orders(edit)
			props.Consistency = awsdynamodb.MultiRegionConsistency_STRONG
			nodepool.New(stack, "Nodes", props)
			table := template(t, stack).one(t, tableType).Properties
			if table["MultiRegionConsistency"] != "STRONG" {
				t.Errorf("MultiRegionConsistency is %v, want STRONG", table["MultiRegionConsistency"])
			}
			regions := len(table["Replicas"].([]any))
			if witnesses, ok := table["GlobalTableWitnesses"].([]any); ok {
				regions += len(witnesses)
			}
			if regions != 3 {
				t.Errorf("got %d Regions, want 3: %v", regions, table)
			}
			for _, r := range table["Replicas"].([]any) {
				replica := r.(map[string]any)
				if replica["DeletionProtectionEnabled"] != true || replica["PointInTimeRecoverySpecification"] == nil {
					t.Errorf("a replica is not protected like the table: %v", replica)
				}
			}
			if table["TimeToLiveSpecification"] != nil {
				t.Error("a table with strong consistency cannot have a TTL")
			}
		})
	}
}

// A replica that is added without the construct's knowledge makes the table eventually consistent, so the synthesis refuses it.
func TestReplicaAddedLater(t *testing.T) {
	stack := newStack(t, "us-east-1")
	nodes := nodepool.New(stack, "Nodes", orders(nil))
	nodes.Node().FindChild(jsii.String("Table")).(awsdynamodb.TableV2).AddReplica(&awsdynamodb.ReplicaTableProps{Region: jsii.String("eu-west-1")})
	wantRefused(t, stack, "eventual consistency")
}
