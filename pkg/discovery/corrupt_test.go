package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A corrupt entry is not valid, and the next registration repairs it. Items at the places
// that a corrupt list contains are never written, because they could be leases.
func TestCorrupt(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	s := NewTable(client, table)
	if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}
	before := raw(t, client, table, "orders#0", 1)
	number := func(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
	for _, item := range []attributes{
		{"pool_group": str("orders#svc#orders"), "node_id": number("0"), "version": str("x"), "revision": number("9"), "holder": number("1")},
		{"pool_group": str("orders#svc#orders"), "node_id": number("1"), "holder": str("x"), "addresses": str("x")},
		{"pool_group": str("orders#registered"), "node_id": number("1"), "holder": str("x"), "version": number("0"), "revision": number("1"),
			"places": &types.AttributeValueMemberL{Value: []types.AttributeValue{str("0"), str(""), str("#0"), str("svc#"), str("svc#a#0"), str("ep#a"), str("ep#a#")}}},
		{"pool_group": str("orders#registered"), "node_id": number("-5"), "holder": str("x"), "version": number("1")},
	} {
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	d := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
	wantPorts(t, service(t, d, "orders"))
	if cleared, err := Sweep(t.Context(), s, "orders"); err != nil || cleared != 0 {
		t.Errorf("got %d, %v, want 0", cleared, err)
	}
	if now := raw(t, client, table, "orders#0", 1); dynamotest.ItemBytes(now) != dynamotest.ItemBytes(before) {
		t.Errorf("the lease is now %v, want it unchanged", now)
	}
	for range 2 {
		a, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		register(t, d, a, Service{"orders", at(a.NodeID())})
	}
	wantPorts(t, service(t, d, "orders"), 0, 1)
}

// A corrupt entry that seems to be newer than its dead holder stays, with its list. Sweep
// clears the other entries, those of the same holder too, and reports the corrupt one.
func TestSweepPassesACorruptEntry(t *testing.T) {
	for name, wrap := range map[string]func(lease.Client) lease.Client{
		"a refusal with the item":    func(c lease.Client) lease.Client { return c },
		"a refusal without the item": func(c lease.Client) lease.Client { return bare{c} },
	} {
		t.Run(name, func(t *testing.T) {
			client := dynamotest.Embedded(t)
			table := dynamotest.CreateTable(t, client)
			s := NewTable(wrap(client), table)
			if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
				t.Fatal(err)
			}
			d := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			var agents []*lease.Agent
			for n := range 2 {
				a, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				agents = append(agents, a)
				register(t, d, a, Service{"orders", at(n)}, Endpoint{"shard", "7", at(n)})
			}
			broken := raw(t, client, table, "orders#ep#shard#7", agents[0].NodeID())
			broken["version"], broken["addresses"] = &types.AttributeValueMemberN{Value: "9"}, str("by hand")
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
				t.Fatal(err)
			}
			for _, a := range agents {
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for round, want := range []int{3, 0} {
				cleared, err := Sweep(t.Context(), s, "orders")
				if cleared != want || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("orders#ep#shard#7 of node %d", agents[0].NodeID())) || !strings.Contains(err.Error(), "corrupt item") {
					t.Errorf("sweep %d: got %d cleared, %v, want %d and an error that names the corrupt entry", round, cleared, err, want)
				}
			}
		})
	}
}

// An entry of the last holder of a node ID that was broken by hand, so that it is corrupt or
// has a version that is too high, and seems to be newer, keeps the next holder neither from
// registering nor from leaving, even if the list has no room for it. It is logged once.
func TestRegisterBesideACorruptEntry(t *testing.T) {
	for offers, addresses := range map[int]types.AttributeValue{1: str("by hand"), 2: nil, maxOffers: str("by hand")} {
		t.Run(fmt.Sprintf("%d offers", offers), func(t *testing.T) {
			client := dynamotest.Embedded(t)
			table := dynamotest.CreateTable(t, client)
			s := NewTable(client, table)
			if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
				t.Fatal(err)
			}
			start := func() *lease.Agent {
				t.Helper()
				a, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = a.Close() })
				return a
			}
			first := start()
			register(t, directory(t, Config{Store: s, Pool: "orders", Logger: silent}), first, Service{"old", at(1)}, Service{"older", at(1)})
			broken := raw(t, client, table, "orders#svc#old", first.NodeID())
			broken["version"] = &types.AttributeValueMemberN{Value: "9"}
			if addresses != nil {
				broken["addresses"] = addresses
			}
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			second := start()
			var log logged
			d := directory(t, Config{Store: s, Pool: "orders", Logger: log.logger()})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var all []Offer
			for i := range offers {
				all = append(all, Service{fmt.Sprintf("new%d", i), at(2)})
			}
			if err := d.Register(ctx, second, all...); err != nil {
				t.Fatalf("got %v, want %d services registered", err, offers)
			}
			reader := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			wantPorts(t, service(t, reader, "new0"), 2)
			wantPorts(t, service(t, reader, "older"))
			// The broken one is in the list if there is room.
			if got, err := reader.Services().List(t.Context()); err != nil || len(got) != min(offers+1, maxOffers) {
				t.Errorf("got %d services, %v, want %d", len(got), err, min(offers+1, maxOffers))
			}
			if err := d.Leave(ctx, second); err != nil {
				t.Errorf("after Register: got %v, want nothing registered", err)
			}
			if got := strings.Count(log.String(), "a corrupt entry stays"); got != 1 {
				t.Errorf("got %d lines about the corrupt entry, want 1: %s", got, log.String())
			}
		})
	}
}

// oneHolder returns a table with a pool of one node ID, and the agent that holds it.
func oneHolder(t *testing.T) (client *dynamodb.Client, table string, s Store, a *lease.Agent) {
	t.Helper()
	client = dynamotest.Embedded(t)
	table = dynamotest.CreateTable(t, client)
	s = NewTable(client, table)
	if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
		t.Fatal(err)
	}
	a, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return client, table, s, a
}

// Entries of the last holder that were broken by hand keep the next holder only from their
// own places, whichever place comes first.
func TestBrokenEntryKeepsItsOwnPlaceOnly(t *testing.T) {
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	for name, by := range map[string]attributes{
		"corrupt":                     {"version": number(9), "addresses": str("by hand")},
		"a version that is too high":  {"version": number(9)},
		"a revision that is too high": {"revision": number(math.MaxInt64)},
	} {
		t.Run(name, func(t *testing.T) {
			client, table, s, a := oneHolder(t)
			before := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			register(t, before, a, Service{"broken", at(1)})
			broken := raw(t, client, table, "orders#svc#broken", a.NodeID())
			maps.Copy(broken, by)
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			// A failed turn is logged after its last write.
			d := directory(t, Config{Store: s, Pool: "orders", Logger: slog.New(canceling{slog.DiscardHandler, cancel})})
			if err := d.Register(ctx, a, Service{"a", at(2)}, Service{"broken", at(2)}, Service{"z", at(2)}); err == nil {
				t.Error("got no error, want that one place is not registered")
			}
			reader := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			wantPorts(t, service(t, reader, "a"), 2)
			wantPorts(t, service(t, reader, "z"), 2)
		})
	}
}

// A broken entry keeps no call waiting but those about its own place: other offers are
// registered and withdrawn at once.
func TestBrokenEntryKeepsNoOtherCallWaiting(t *testing.T) {
	client, table, s, a := oneHolder(t)
	register(t, directory(t, Config{Store: s, Pool: "orders", Logger: silent}), a, Service{"broken", at(1)})
	broken := raw(t, client, table, "orders#svc#broken", a.NodeID())
	broken["version"] = &types.AttributeValueMemberN{Value: "9"}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d := directory(t, Config{Store: s, Pool: "orders", Logger: slog.New(canceling{slog.DiscardHandler, cancel})})
	if err := d.Register(ctx, a, Service{"broken", at(2)}); err == nil {
		t.Error("got no error, want that the place is not registered")
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.Register(ctx, a, Service{"z", at(2)}); err != nil {
		t.Errorf("Register of another service: %v", err)
	}
	if err := d.Deregister(ctx, a, Service{"z", at(2)}); err != nil {
		t.Errorf("Deregister of another service: %v", err)
	}
	if err := d.Deregister(ctx, a, Service{"broken", at(2)}); err != nil {
		t.Errorf("Deregister of the broken one, which stays: %v", err)
	}
}

// A list that was broken by hand, so that it seems to be newer, keeps the holder of its node
// ID from no place. It is logged once.
func TestRegisterBesideABrokenList(t *testing.T) {
	for name, by := range map[string]attributes{"corrupt": {"places": str("by hand")}, "a version that is too high": {}} {
		t.Run(name, func(t *testing.T) {
			client, table, s, a := oneHolder(t)
			register(t, directory(t, Config{Store: s, Pool: "orders", Logger: silent}), a, Service{"old", at(1)})
			broken := raw(t, client, table, "orders#registered", a.NodeID())
			broken["version"] = &types.AttributeValueMemberN{Value: "9"}
			maps.Copy(broken, by)
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
				t.Fatal(err)
			}
			var log logged
			d := directory(t, Config{Store: s, Pool: "orders", Logger: log.logger()})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, service := range []string{"a", "z"} {
				if err := d.Register(ctx, a, Service{service, at(2)}); err != nil {
					t.Errorf("%s: %v", service, err)
				}
			}
			reader := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			wantPorts(t, service(t, reader, "a"), 2)
			wantPorts(t, service(t, reader, "z"), 2)
			if got := strings.Count(log.String(), "a corrupt list stays"); got != 1 {
				t.Errorf("got %d lines about the broken list, want 1: %s", got, log.String())
			}
			// The embedded server deletes nothing; the next write replaces an item without a version.
			if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: key("orders#registered", a.NodeID())}); err != nil {
				t.Fatal(err)
			}
			if err := d.Register(ctx, a, Service{"m", at(2)}); err != nil {
				t.Error(err)
			}
			if got, err := reader.Services().List(ctx); err != nil || !slices.Contains(got, "a") || !slices.Contains(got, "m") || !slices.Contains(got, "z") {
				t.Errorf("after the broken list was deleted: got the services %v, %v", got, err)
			}
			if err := d.Leave(ctx, a); err != nil {
				t.Error(err)
			}
			reader = directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			if got, err := reader.Services().List(ctx); err != nil || len(got) > 0 {
				t.Errorf("after Leave: got the services %v, %v, want none", got, err)
			}
		})
	}
}

// A list that was broken by hand after its holder has registered keeps no call waiting that
// withdraws what the holder offers, or a part of it.
func TestLeaveBesideABrokenList(t *testing.T) {
	for name, by := range map[string]attributes{"corrupt": {"places": str("by hand")}, "a version that is too high": {}} {
		t.Run(name, func(t *testing.T) {
			client, table, s, a := oneHolder(t)
			var log logged
			d := directory(t, Config{Store: s, Pool: "orders", Logger: log.logger()})
			register(t, d, a, Service{"a", at(1)}, Service{"b", at(1)})
			broken := raw(t, client, table, "orders#registered", a.NodeID())
			broken["version"] = &types.AttributeValueMemberN{Value: "9"}
			maps.Copy(broken, by)
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := d.Leave(ctx, a); err != nil {
				t.Errorf("Leave: %v, want no wait for the list", err)
			}
			reader := directory(t, Config{Store: s, Pool: "orders", Logger: silent})
			wantPorts(t, service(t, reader, "a"))
			wantPorts(t, service(t, reader, "b"))
			if got := strings.Count(log.String(), "a corrupt list stays"); got != 1 {
				t.Errorf("got %d lines about the broken list, want 1: %s", got, log.String())
			}
		})
	}
}

// A pointer to a further partition of the lists that was broken by hand keeps nobody from
// writing a list there, and no reader from finding it.
func TestRegisterBesideABrokenPointer(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	s := NewTable(client, table)
	if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: listsSpan + 1, ExcludeBelow: listsSpan, Expect: 1}); err != nil {
		t.Fatal(err)
	}
	broken := key("orders#registered", pointer(1).NodeID)
	broken["version"], broken["revision"], broken["places"] = &types.AttributeValueMemberN{Value: "1"}, &types.AttributeValueMemberN{Value: "0"}, str("by hand")
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: broken}); err != nil {
		t.Fatal(err)
	}
	a, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	register(t, directory(t, Config{Store: s, Pool: "orders", Logger: silent}), a, Service{"a", at(1)})
	if got, err := directory(t, Config{Store: s, Pool: "orders", Logger: silent}).Services().List(t.Context()); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("got the services %v, %v, want a", got, err)
	}
}

// canceling is a logger that cancels a context when something is logged.
type canceling struct {
	slog.Handler
	cancel context.CancelFunc
}

func (c canceling) Enabled(context.Context, slog.Level) bool { return true }

func (c canceling) Handle(context.Context, slog.Record) error {
	c.cancel()
	return nil
}

// raw returns an item as it is in the table.
func raw(t *testing.T, client *dynamodb.Client, table, partition string, node int) attributes {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key(partition, node), ConsistentRead: aws.Bool(true)})
	if err != nil || out.Item == nil {
		t.Fatal(out, err)
	}
	return out.Item
}

// bare is a client whose refusals contain no item, as can happen with DynamoDB Local.
type bare struct{ lease.Client }

func (b bare) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := b.Client.UpdateItem(ctx, in, o...)
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		return nil, &types.ConditionalCheckFailedException{}
	}
	return out, err
}

func TestRefusalWithoutItem(t *testing.T) {
	client := dynamotest.Embedded(t)
	s := NewTable(bare{client}, dynamotest.CreateTable(t, client))
	r := record{NodeID: 1, Holder: "h", Version: 1, Revision: 1}
	for i, want := range []bool{true, false} {
		now, applied, err := s.Write(t.Context(), "orders#svc#orders", r)
		if err != nil || applied != want || !now.Same(r) || !slices.Equal(now.Places, r.Places) {
			t.Errorf("write %d: got %+v, %v, %v, want the record stored", i, now, applied, err)
		}
	}
}
