package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// leasesOnly is a client with a role that may write leases, and not the pool's item.
type leasesOnly struct{ *dynamodb.Client }

func (c leasesOnly) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if key, _ := in.Key["pool_group"].(*types.AttributeValueMemberS); key != nil && !strings.Contains(key.Value, "#") {
		return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:UpdateItem"}
	}
	return c.Client.UpdateItem(ctx, in, o...)
}

// An agent that may not write the pool's item leases from the groups that are open,
// says so once, and goes on. The reaper function opens more.
func TestAgentThatMayNotWriteThePool(t *testing.T) {
	client := dynamotest.Embedded(t)
	all := lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	pool := leasepool.Open(all, "orders")
	// The open group has the node IDs 1276 to 1279, and the next one has 20.
	if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 1300, ExcludeBelow: 1276, Layout: snowflake.Wide16()}); err != nil {
		t.Fatal(err)
	}
	_, table := all.Table()
	var seen events
	cfg := fixture.Config(lease.NewDynamoDB(leasesOnly{client}, table))
	cfg.OnEvent = seen.add
	var agents []*lease.Agent
	for range 4 {
		agents = append(agents, fixture.Start(t, cfg))
	}
	for _, a := range agents {
		if _, err := ids(t, a).Next(); err != nil {
			t.Error(err)
		}
	}
	if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Fatalf("got %v, want that the open groups are full", err)
	}
	said := 0
	for _, e := range seen.of(lease.EventWarning) {
		if errors.Is(e.Err, lease.ErrAccess) {
			said++
		}
	}
	if said == 0 || said > 5 { // once for each of those that looked
		t.Errorf("%d warnings that the pool's item may not be written, want one for each start that looked", said)
	}
	if c, err := pool.Tend(t.Context()); err != nil || c.Pool.OpenGroups != 6 {
		t.Fatalf("%+v, %v: want that the next group was opened", c.Pool, err)
	}
	if l, err := fixture.Start(t, cfg).Lease(); err != nil || l.NodeID < 1280 {
		t.Errorf("%+v, %v: want a node ID of the group that was opened", l, err)
	}
}

// Without a layout in the pool such an agent makes no IDs, since nobody may guess one.
func TestAgentThatMayNotBindTheLayout(t *testing.T) {
	client := dynamotest.Embedded(t)
	all := lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	if _, err := leasepool.Open(all, "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}
	_, table := all.Table()
	agent := fixture.Start(t, fixture.Config(lease.NewDynamoDB(leasesOnly{client}, table)))
	if _, err := snowflake.New(agent); !errors.Is(err, lease.ErrAccess) {
		t.Errorf("got %v, want that it may not", err)
	}
	if _, err := agent.Lease(); err != nil {
		t.Errorf("it lost its lease over that: %v", err)
	}
	if _, err := leasepool.Open(all, "orders").SetLayout(t.Context(), snowflake.Default()); err != nil {
		t.Fatal(err)
	}
	if _, err := snowflake.New(agent); err != nil {
		t.Error(err)
	}
}

// noPool refuses writes of the pool's item.
type noPool struct{ lease.Store }

func (noPool) WritePool(context.Context, protocol.PoolWrite) (protocol.PoolResult, error) {
	return protocol.PoolResult{}, lease.ErrAccess
}

// A widening that nobody finishes and this agent may not end costs it nothing but the
// end of its span: it is suspended there, and resumes when someone has ended the try.
func TestAgentThatMayNotEndAWidening(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		store := leasetest.NewMemory("orders", 0)
		pool := leasepool.Open(store, "orders")
		if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: 512, ExcludeBelow: 250, Narrow: true, Layout: snowflake.Wide16()}); err != nil {
			t.Fatal(err)
		}
		agent := fixture.Start(t, fixture.Config(noPool{store}))
		g := ids(t, agent)
		item, err := store.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		res, err := store.WritePool(t.Context(), protocol.BeginWiden{
			Pool: "orders", Try: 1, Seen: item.Widening.State, From: time.Now().Add(time.Minute), Bits: 10, Numbers: item.Numbers})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		l, err := agent.Lease()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Write(t.Context(), protocol.Mark{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Try: 1, From: res.Pool.Widening.From}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(2 * time.Minute)
		if _, err := g.TryNext(); err == nil {
			t.Error("it made an ID behind the beginning of a width that it does not know")
		}
		if _, err := store.WritePool(t.Context(), protocol.VoidWiden{Pool: "orders", Try: 1}); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Minute)
		if _, err := g.Next(); err != nil {
			t.Errorf("it did not resume: %v", err)
		}
	})
}
