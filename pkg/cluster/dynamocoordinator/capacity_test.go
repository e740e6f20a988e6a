package dynamocoordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// scales is a client that adds up the cost of requests for each partition key. It
// computes the cost from the sizes of the items.
type scales struct {
	lease.Client
	mu            sync.Mutex
	reads, writes map[string]float64
	requests      int
	fail          func(partition string) error // the error of a Query, if not nil
}

func weigh(c lease.Client) *scales {
	s := &scales{Client: c}
	s.reset()
	return s
}

func (s *scales) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads, s.writes, s.requests = map[string]float64{}, map[string]float64{}, 0
}

func (s *scales) add(to map[string]float64, partition types.AttributeValue, v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to[text(partition)] += v
	s.requests++
}

// blocks returns how many blocks of the given size an item takes, at least one.
func blocks(item attributes, size int) float64 {
	return float64(max((dynamotest.ItemBytes(item)+size-1)/size, 1))
}

func (s *scales) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	out, err := s.Client.GetItem(ctx, in, o...)
	if err == nil {
		units := blocks(out.Item, 4096)
		if !aws.ToBool(in.ConsistentRead) {
			units /= 2
		}
		s.add(s.reads, in.Key["pool_group"], units)
	}
	return out, err
}

func (s *scales) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := s.Client.UpdateItem(ctx, in, o...)
	if err == nil {
		s.add(s.writes, in.Key["pool_group"], blocks(out.Attributes, 1024))
	}
	return out, err
}

func (s *scales) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if s.fail != nil {
		for _, v := range in.ExpressionAttributeValues {
			if err := s.fail(text(v)); err != nil {
				return nil, err
			}
		}
	}
	return s.Client.Query(ctx, in, o...)
}

// These are the limits of one partition per second, and the time between heartbeats.
const (
	mostReads, mostWrites = 3000, 1000
	every                 = 5 // seconds
)

// change gives n members, spread over all parts, new sessions.
func (l *large) change(n int) {
	for i := range n {
		m := &l.members[1+i*(len(l.members)-2)/n]
		m.Version++
		m.SessionID = uuid.Must(uuid.NewV7()).String()
	}
}

// While members come and go, the digest of the largest cluster stays within the limits of
// a partition. The test sends real requests and computes their cost from the sizes of the
// items.
func TestDigestWithinOnePartition(t *testing.T) {
	members := protocol.MaxPoolSize
	if testing.Short() {
		members = 8192
	}
	l := newLarge(t, members)
	reader, keeper := weigh(l.client), weigh(l.client)
	l.table.client, l.keeper.client = reader, keeper
	d := l.table.digestOf(l.reader)
	l.heartbeat(t, true) // reads all parts
	shares := map[string]float64{}
	for _, m := range l.members {
		shares[d.copyOf(m)]++
	}
	for _, changes := range []int{0, 1, 40, 40, 40, 40} {
		keeper.reset()
		reader.reset()
		l.change(changes)
		l.keep(t)
		l.heartbeat(t, true)
		own := d.copyOf(l.reader)
		if reader.requests != 1 {
			t.Errorf("%d changes: a reader sent %d requests to %v, want one, for item 0", changes, reader.requests, reader.reads)
		}
		for partition, n := range shares {
			if sum := n * reader.reads[own] / every; sum > mostReads {
				t.Errorf("%d changes: %v read units a second on %s", changes, sum, partition)
			}
		}
		for partition, units := range keeper.writes {
			if units/every > mostWrites {
				t.Errorf("%d changes: %v write units a second on %s", changes, units/every, partition)
			}
		}
		t.Logf("%d changes in a heartbeat: %v read units a reader, %d partitions of item 0, %v write units on the busiest", changes, reader.reads[own], len(shares), keeper.writes[l.table.digestOf(l.reader).partition])
	}
	// If all members change at once, as at a fleet's start, item 0 has no changes, and
	// readers read the parts.
	keeper.reset()
	l.change(members - 2)
	l.keep(t)
	for partition, units := range keeper.writes {
		if units/every > mostWrites {
			t.Errorf("all changed: %v write units a second on %s", units/every, partition)
		}
	}
	t.Logf("all changed: %v write units on the busiest", keeper.writes[d.partition])
}

// A reader does not use changes that are forged or that result in parts without the
// hashes in item 0. It reads the parts instead.
func TestChangesThatDoNotMatch(t *testing.T) {
	forged, err := pack([]byte(`[{"from":"x","parts":{}},{"from":"x","parts":{"1":{"gone":["a"],"came":[{"cluster":"stock","name":"b","session_id":"c"}]}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(l *large) string { // changes that start from the right list, but contain the wrong members
		d := l.table.digestOf(l.reader)
		packed, err := pack(fmt.Appendf(nil, `[{"from":%q,"parts":{"1":{"gone":[%q]}}}]`, sum([]byte(d.listed)), l.members[301].SessionID))
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	for name, changes := range map[string]func(*large) string{
		"another list":  func(*large) string { return forged },
		"other members": wrong,
		"no list":       func(*large) string { return "e30=" },
		"too long":      func(*large) string { return strings.Repeat("x", maxChanges+1) },
		"none":          func(*large) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLarge(t, 600)
			l.heartbeat(t, true)
			l.members[300].Version++
			l.members[300].SessionID = uuid.Must(uuid.NewV7()).String()
			l.keep(t)
			if _, err := l.keeper.update(t.Context(), "orders#digest", 0, "SET changes = :changes", "", attributes{":changes": str(changes(l))}); err != nil {
				t.Fatal(err)
			}
			reader := weigh(l.client)
			l.table.client = reader
			snap := l.heartbeat(t, true)
			if reader.requests != 2 {
				t.Errorf("%d requests, want item 0 and one part", reader.requests)
			}
			for _, m := range l.members {
				if !has(snap, m) {
					t.Fatalf("%+v is missing", m)
				}
			}
		})
	}
}

// A reader that missed writes of the digest catches up with the changes in item 0, if it
// did not miss more writes than these cover. The changes may add and remove members and
// parts.
func TestChangesOfSeveralWritings(t *testing.T) {
	l := newLarge(t, 1030)
	l.heartbeat(t, true)
	reader := weigh(l.client)
	l.table.client = reader
	all := l.members
	for missed := range stepsKept + 2 {
		for i := range missed + 1 {
			all[10+i].Version++
			all[10+i].SessionID = uuid.Must(uuid.NewV7()).String()
			if l.members = all; i%2 == 0 {
				l.members = append(all[:1000:1000], l.reader)
			}
			l.keep(t)
		}
		reader.reset()
		snap := l.heartbeat(t, true)
		if read := reader.requests > 1; read != (missed+1 > stepsKept) {
			t.Errorf("%d writes were missed: %d requests", missed+1, reader.requests)
		}
		for _, m := range l.members {
			if !has(snap, m) {
				t.Fatalf("%d writes were missed: %+v is missing", missed+1, m)
			}
		}
	}
}

// The changes in item 0 are bounded, since every reader pays for them. The oldest changes
// are dropped first.
func TestChangesAreBounded(t *testing.T) {
	parts := func(members []cluster.Member) map[string][]cluster.Member { return (&digest{slots: 1}).byPart(members) }
	k := kept{}.then("0", parts(fleetOf(2000)), nil)
	if k.changes() != "" {
		t.Error("changes of unknown members")
	}
	members := fleetOf(2000)
	for i := range 8 {
		for j := range 150 { // random sessions cannot be compressed
			members[j].SessionID = uuid.NewString()
		}
		var changed []string
		now := parts(members)
		for name := range now {
			changed = append(changed, name)
		}
		k = k.then(fmt.Sprint(i+1), now, changed)
		if got := k.changes(); got == "" || len(got) > maxChanges {
			t.Errorf("%d: changes have %d bytes, want some, and at most %d", i, len(got), maxChanges)
		}
	}
	if k = k.then("more", parts(nil), nil); k.changes() != "" {
		t.Error("2,000 changes were packed")
	}
}

// A new member has read all leases itself, so it does not read parts in which the keeper
// saw the same members.
func TestNewcomerReadsNoPart(t *testing.T) {
	client := dynamotest.Embedded(t)
	name := dynamotest.CreateTable(t, client)
	store := lease.NewDynamoDB(client, name)
	if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 600}); err != nil {
		t.Fatal(err)
	}
	reader := weigh(client)
	keeping, reading := New(client, name), New(reader, name)
	pool, err := store.PoolItem(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	var members []cluster.Member
	for i := range min(600, pool.OpenGroups*protocol.GroupSize) {
		m := cluster.Member{Cluster: "orders", Name: fmt.Sprint("node-", i), NodeID: i, SessionID: fmt.Sprintf("%08d", i)}
		if i%100 != 0 {
			continue
		}
		now := time.Now()
		res, err := store.Write(t.Context(), protocol.Claim{
			Key: protocol.Key{Pool: "orders", NodeID: i}, Session: "holder", Task: "task", At: now.Add(time.Minute), TTL: time.Hour, ExpiresAt: now.Add(time.Hour),
			ReservedUntil: now.Add(2 * time.Hour), Metadata: map[string]string{"node": m.Name, "session_id": m.SessionID},
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		members = append(members, m)
	}
	beat := func(c *Coordinator, i int) cluster.Snapshot {
		t.Helper()
		snap, err := c.Heartbeat(t.Context(), cluster.Beat{Self: members[i], At: time.Now(), Timeout: 2 * time.Hour, Oldest: i == 0})
		if err != nil || snap.Warning != nil || len(snap.Members) != len(members) {
			t.Fatal(len(snap.Members), err, snap.Warning)
		}
		return snap
	}
	beat(keeping, 0)
	beat(reading, 1)
	beat(keeping, 0)
	reader.reset()
	if snap := beat(reading, 1); !snap.Ordered || reader.requests != 2 || reader.reads["orders#digest"] != 0.5 {
		t.Errorf("%d requests, %v: want item 0 and the leader", reader.requests, reader.reads)
	}

	// If reading one group fails, the whole read fails, since that group's members would
	// seem dead.
	broken := errors.New("no answer for this group")
	reader.fail = func(partition string) error {
		if partition == "orders#0" {
			return broken
		}
		return nil
	}
	if _, err := reading.all(t.Context(), "orders", time.Now(), 2*time.Hour); !errors.Is(err, broken) {
		t.Errorf("a read of all leases without one group: %v", err)
	}
}
