package discovery

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// metered adds up the costs of calls that DynamoDB Local reports.
type metered struct {
	lease.Client
	reads, writes float64
	calls         int
}

func (m *metered) reset() { m.reads, m.writes, m.calls = 0, 0, 0 }

func (m *metered) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.GetItem(ctx, in, o...)
	if err == nil {
		m.reads, m.calls = m.reads+*out.ConsumedCapacity.CapacityUnits, m.calls+1
	}
	return out, err
}

func (m *metered) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.Query(ctx, in, o...)
	if err == nil {
		m.reads, m.calls = m.reads+*out.ConsumedCapacity.CapacityUnits, m.calls+1
	}
	return out, err
}

func (m *metered) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.UpdateItem(ctx, in, o...)
	if err == nil {
		m.writes, m.calls = m.writes+*out.ConsumedCapacity.CapacityUnits, m.calls+1
	}
	return out, err
}

// The costs of calls that DynamoDB Local reports are those in docs/discovery.md.
func TestUnits(t *testing.T) {
	client := dynamotest.Local(t)
	table := dynamotest.CreateTable(t, client)
	m := &metered{Client: client}
	s := NewTable(client, table)
	if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 256}); err != nil {
		t.Fatal(err)
	}
	agent, err := lease.Start(t.Context(), lease.Config{Store: s.Leases(), Pool: "orders", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	d := directory(t, Config{Store: NewTable(m, table), Pool: "orders", Logger: silent})
	here := Address{Host: "ip-10-0-12-34.eu-central-1.compute.internal", Port: 8080, Zone: "eu-central-1a"}

	register(t, d, agent, Service{"orders", here}, Service{"stock", here}, Endpoint{"shard", "7", here})
	t.Logf("register 3: %d calls, %v reads, %v writes", m.calls, m.reads, m.writes)
	if m.calls != 5 || m.reads != 1 || m.writes != 4 { // reads the old list; writes the list and three entries
		t.Errorf("got %d calls, %v reads, %v writes, want 5 calls, 1 read and 4 writes", m.calls, m.reads, m.writes)
	}
	m.reset()
	if err := d.Deregister(t.Context(), agent, Service{Name: "stock"}); err != nil || m.writes != 2 || m.reads != 0 { // the entry and the list
		t.Errorf("deregister: got %v reads, %v writes, %v, want 2 writes and 0 reads", m.reads, m.writes, err)
	}

	now := time.Now()
	held, err := agent.Lease()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 249 { // other holders, whose leases contain the texts of an ECS task
		if n == held.NodeID {
			n = 249
		}
		res, err := s.Leases().Write(t.Context(), protocol.Claim{
			Key: protocol.Key{Pool: "orders", NodeID: n}, Session: held.Holder, At: now.Add(time.Minute), ClaimGuard: time.Second,
			Task: "arn:aws:ecs:eu-central-1:123456789012:task/production-cluster/0123456789abcdef0123456789abcdef",
			TTL:  time.Hour, ExpiresAt: now.Add(time.Hour), ReservedUntil: now.Add(2 * time.Hour),
			Metadata: map[string]string{"zone": "eu-central-1a", "cluster": "production-cluster", "address": "10.11.12.13"},
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if _, _, err := s.Write(t.Context(), "orders#svc#wide", record{NodeID: n, Holder: held.Holder, Version: 1, Revision: 1, Address: (*entries.Address)(&here)}); err != nil {
			t.Fatal(err)
		}
	}
	size := dynamotest.ItemBytes(raw(t, client, table, "orders#svc#orders", agent.NodeID()))
	t.Logf("an entry has %d bytes", size)
	group := 0.0
	for i, c := range []struct {
		service string
		n       int
	}{{"orders", 1}, {"wide", 249}, {"nobody", 0}} {
		d := directory(t, Config{Store: NewTable(m, table), Pool: "orders", Logger: silent})
		l := service(t, d, c.service)
		m.reset()
		if got := ports(t, l); len(got) != c.n {
			t.Fatalf("got %d instances, want all", len(got))
		}
		t.Logf("%s: %d calls, %v reads, %v writes for %d instances", c.service, m.calls, m.reads, m.writes, c.n)
		entries := math.Ceil(float64(c.n*size)/4096) / 2 // for an empty page, DynamoDB itself charges 0.5
		note := math.Ceil(float64(c.n*32) / 1024)        // the findings for others
		switch {
		case i == 0:
			group = m.reads - entries
		case c.n == 0:
			group = 0
		}
		if off := math.Abs(m.reads - entries - group); off > 0.5 || group > 12.5 || m.writes > note {
			t.Errorf("%v reads, want %v for the entries and %v for the leases; %v writes, want at most %v", m.reads, entries, group, m.writes, note)
		}
		m.reset()
		if ports(t, l); m.calls != 0 {
			t.Errorf("got %d calls for a cached answer, want 0 calls", m.calls)
		}
		other := directory(t, Config{Store: NewTable(m, table), Pool: "orders", MaxAge: time.Hour, Logger: silent})
		ports(t, service(t, other, c.service))
		t.Logf("%s, the next reader: %d calls, %v reads, %v writes", c.service, m.calls, m.reads, m.writes)
		if most := entries + note/8 + 0.5; m.calls != 1 || m.reads > most || m.writes != 0 {
			t.Errorf("the next reader: %d calls, %v reads, %v writes, want one call and at most %v", m.calls, m.reads, m.writes, most)
		}
	}
	m.reset()
	cleared, err := Sweep(t.Context(), NewTable(m, table), "orders")
	if err != nil || cleared != 0 || m.writes != 0 {
		t.Errorf("got %d cleared, %v writes, %v, want none", cleared, m.writes, err)
	}
	t.Logf("a sweep of one list: %v reads", m.reads)
}
