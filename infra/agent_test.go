package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/iampolicy"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Agents, discovery and a cluster run on the synthesized table, and make only calls that GrantLease covers. They use
// exactly the partitions that docs/iam.md lists.
func TestAgentOnTheSynthesizedTable(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { agentOnTable(t, dynamotest.Embedded(t)) })
	t.Run("local", func(t *testing.T) { agentOnTable(t, dynamotest.Local(t)) })
}

func agentOnTable(t *testing.T, client *dynamodb.Client) {
	stack := newStack(t, "")
	nodes := nodepool.New(stack, "Nodes", orders(nil))
	task := newTask(stack, "Task")
	nodes.Pool("orders").GrantLease(task.TaskRole())
	doc := template(t, stack)

	table := "synthesized-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	create(t, client, table, doc.one(t, tableType).Properties)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}

	calls := &recorder{Client: client, keys: map[string]map[string]bool{}}
	config := lease.Config{Pool: "orders", Store: lease.NewDynamoDB(calls, table), RenewEvery: 50 * time.Millisecond} // renewals are a cluster's heartbeats
	directory, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(calls, table)})
	if err != nil {
		t.Fatal(err)
	}
	here := discovery.Address{Host: "10.0.0.7"}
	join := member(t, calls, table)
	ended := []func() error{join("without a lease", nil)} // the first member, which keeps the digest
	for n := range 2 {
		agent, err := lease.Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { agent.Close() })
		ids, err := snowflake.New(agent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ids.Next(); err != nil {
			t.Fatal(err)
		}
		if err := directory.Register(t.Context(), agent, discovery.Service{Name: "orders", Address: here}, discovery.Endpoint{Name: "shard", Key: fmt.Sprint(n), Address: here}); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, join(fmt.Sprint(n), agent), func() error { return directory.Leave(t.Context(), agent) }, agent.Close)
	}
	lookup, err := directory.Service("orders")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := lookup.Resolve(t.Context()); err != nil || len(found) != 2 {
		t.Fatalf("got %v, %v, want 2", found, err)
	}
	// While every node ID is taken, an agent reads everything that it may read.
	if _, err := lease.Start(t.Context(), config); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Fatalf("a third agent on two node IDs: got %v, want ErrPoolExhausted", err)
	}
	for _, end := range ended {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}

	used := map[string]bool{}
	var lines []string
	for _, policy := range doc.policies("TaskTaskRole") {
		lines = append(lines, statements(t, policy)...)
	}
	policy := policyOf(t, doc, "TaskTaskRole")
	for _, r := range calls.all() {
		used[r.Action] = true
		if !policy.Allows(r) {
			t.Errorf("an agent calls %s with %v, which its role does not allow", r.Action, r.Context)
		}
	}
	for _, line := range lines {
		if action := strings.Fields(line)[0]; !used[action] {
			t.Errorf("%s is granted, but the agents made only %v", action, slices.Sorted(maps.Keys(used)))
		}
	}
	// The reaper's memory is the only partition that no agent touches.
	if _, err := leasepool.Open(config.Store, "orders").Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if listed, used := partitions(t), touched(calls.made()); !slices.Equal(listed, used) {
		t.Errorf("docs/iam.md lists the partitions %v, but these were touched: %v", listed, used)
	}
}

// member starts a member of the cluster of the pool orders, and waits until all members see it.
func member(t *testing.T, calls *recorder, table string) func(name string, agent *lease.Agent) (end func() error) {
	coordinator := dynamocoordinator.New(calls, table)
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return func(name string, agent *lease.Agent) func() error {
		t.Helper()
		node, err := cluster.Start(limit, cluster.Config{
			Cluster: "orders", Name: name, Coordinator: coordinator, Agent: agent, Every: 50 * time.Millisecond, PublishKnown: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		if err := node.WaitKnown(limit); err != nil {
			t.Fatal(err)
		}
		return node.Close
	}
}

// partitions returns the partitions of a pool's items that docs/iam.md lists.
func partitions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`<pool>.*?`) \\|").FindAllStringSubmatch(string(text), -1) {
		all = append(all, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	slices.Sort(all)
	return all
}

// create makes a table with the keys that the template declares.
func create(t *testing.T, client *dynamodb.Client, name string, properties map[string]any) {
	t.Helper()
	input := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingMode(properties["BillingMode"].(string))}
	for _, a := range properties["AttributeDefinitions"].([]any) {
		def := a.(map[string]any)
		input.AttributeDefinitions = append(input.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(def["AttributeName"].(string)), AttributeType: types.ScalarAttributeType(def["AttributeType"].(string)),
		})
	}
	for _, k := range properties["KeySchema"].([]any) {
		key := k.(map[string]any)
		input.KeySchema = append(input.KeySchema, types.KeySchemaElement{
			AttributeName: aws.String(key["AttributeName"].(string)), KeyType: types.KeyType(key["KeyType"].(string)),
		})
	}
	if _, err := client.CreateTable(t.Context(), input); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Error(err)
		}
	})
}

// recorder records each call and its leading keys. lease.Client has every call that a store can make.
type recorder struct {
	lease.Client
	mu       sync.Mutex
	keys     map[string]map[string]bool
	requests map[string]iampolicy.Request // by their form in IAM
}

func (r *recorder) note(call string, input any, keys ...types.AttributeValue) {
	request, err := iampolicy.RequestOf(tableARN, input)
	if err != nil {
		panic(err) // every call of the client is known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests == nil {
		r.requests = map[string]iampolicy.Request{}
	}
	r.requests[fmt.Sprint(request)] = request
	if r.keys[call] == nil {
		r.keys[call] = map[string]bool{}
	}
	for _, k := range keys {
		r.keys[call][k.(*types.AttributeValueMemberS).Value] = true
	}
}

// all returns the different requests so far.
func (r *recorder) all() []iampolicy.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.requests))
}

// made returns the calls so far, with their leading keys.
func (r *recorder) made() map[string]map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]map[string]bool{}
	for call, keys := range r.keys {
		all[call] = maps.Clone(keys)
	}
	return all
}

// touched returns the partitions of the calls, in the notation of docs/iam.md.
func touched(calls map[string]map[string]bool) []string {
	all := map[string]bool{}
	for _, keys := range calls {
		for key := range keys {
			rest, _ := strings.CutPrefix(key, "orders")
			switch parts := strings.Split(rest, "#"); {
			case regexp.MustCompile(`^#\d+$`).MatchString(rest):
				rest = "#<group>"
			case strings.HasPrefix(rest, "#svc#"):
				rest = "#svc#<service>"
			case strings.HasPrefix(rest, "#card#"):
				rest = "#card#<n>"
			case strings.HasPrefix(rest, "#ep#") && len(parts) == 4:
				rest = "#ep#<endpoint>#<key>"
			}
			all["<pool>"+rest] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (r *recorder) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	r.note("DescribeTable", in)
	return r.Client.DescribeTable(ctx, in, o...)
}

func (r *recorder) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	r.note("GetItem", in, in.Key["pool_group"])
	return r.Client.GetItem(ctx, in, o...)
}

func (r *recorder) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	r.note("Query", in, slices.Collect(maps.Values(in.ExpressionAttributeValues))...)
	return r.Client.Query(ctx, in, o...)
}

func (r *recorder) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	r.note("UpdateItem", in, in.Key["pool_group"])
	return r.Client.UpdateItem(ctx, in, o...)
}
