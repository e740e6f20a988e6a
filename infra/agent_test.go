package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/internal/dynamotest"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// The lease code runs on the very table that is synthesized, and makes no call that GrantLease does not cover.
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
	config := lease.Config{Pool: "orders", Store: lease.NewDynamoDB(calls, table)}
	directory, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(calls, table)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		agent, err := lease.Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		ids, err := snowflake.New(agent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ids.Next(); err != nil {
			t.Fatal(err)
		}
		if err := directory.Register(t.Context(), agent, discovery.Service{Name: "orders", Address: discovery.Address{Host: "10.0.0.7"}}); err != nil {
			t.Fatal(err)
		}
	}
	lookup, err := directory.Service("orders")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := lookup.Resolve(t.Context()); err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	// With every number taken it has to look at all that it may look at.
	if _, err := lease.Start(t.Context(), config); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Fatalf("a third agent on two numbers: %v", err)
	}

	var granted []string
	for id, policy := range doc.all("AWS::IAM::Policy") {
		if strings.HasPrefix(id, "TaskTaskRole") {
			for _, s := range statements(t, policy) {
				granted = append(granted, strings.Fields(s)[0])
			}
		}
	}
	for call, keys := range calls.keys {
		if !slices.Contains(granted, "dynamodb:"+call) {
			t.Errorf("the agent calls %s, which is not granted: %v", call, granted)
		}
		for key := range keys {
			if key != "orders" && !strings.HasPrefix(key, "orders#") {
				t.Errorf("the agent calls %s on %q, outside its leading keys", call, key)
			}
		}
	}
	for _, action := range granted {
		if _, ok := calls.keys[strings.TrimPrefix(action, "dynamodb:")]; !ok {
			t.Errorf("%s is granted, but the agent made only %v", action, slices.Sorted(maps.Keys(calls.keys)))
		}
	}
}

// create makes the table with the keys of the template.
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

// recorder notes each call and its leading keys. lease.Client has every call that a store can make.
type recorder struct {
	lease.Client
	mu   sync.Mutex
	keys map[string]map[string]bool
}

func (r *recorder) note(call string, keys ...types.AttributeValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys[call] == nil {
		r.keys[call] = map[string]bool{}
	}
	for _, k := range keys {
		r.keys[call][k.(*types.AttributeValueMemberS).Value] = true
	}
}

func (r *recorder) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	r.note("DescribeTable")
	return r.Client.DescribeTable(ctx, in, o...)
}

func (r *recorder) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	r.note("GetItem", in.Key["pool_group"])
	return r.Client.GetItem(ctx, in, o...)
}

func (r *recorder) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	r.note("Query", slices.Collect(maps.Values(in.ExpressionAttributeValues))...)
	return r.Client.Query(ctx, in, o...)
}

func (r *recorder) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	r.note("UpdateItem", in.Key["pool_group"])
	return r.Client.UpdateItem(ctx, in, o...)
}
