package dynamocoordinator_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
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
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The costs that DynamoDB Local reports for members are those in docs/cluster.md. A round
// is one heartbeat of every member; there are twelve rounds in a minute.
func TestCost(t *testing.T) {
	client := dynamotest.Local(t)
	documented, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, members := range []int{3, 50, 1000} {
		if members > 50 && testing.Short() {
			continue
		}
		t.Run(strconv.Itoa(members), func(t *testing.T) {
			f := newFleet(t, client, members)
			f.round(t) // each member reads all leases itself
			f.round(t) // each member reads the parts of the digest
			steady := f.round(t)
			f.join(t)
			change := f.round(t) // the first member's turn comes first
			change.sub(steady)
			look := f.look(t) // the new member reads all leases
			change.reads += look.reads
			known := f.publish(t)
			got := []float64{
				12 * steady.writes / float64(members), 12 * steady.reads / float64(members), // per member and minute
				change.writes, change.reads, look.reads, known.writes, // for all members together, once
			}
			row := rowOf(t, string(documented), members)
			line := "| " + strconv.Itoa(members)
			for i, v := range got {
				line += fmt.Sprintf(" | %.1f", v)
				if i >= len(row) || math.Abs(row[i]-v) > 0.05*v+0.11 {
					t.Errorf("column %d is %.1f, docs/cluster.md says %v", i, v, row)
				}
			}
			t.Log(line + " |")
		})
	}
}

// rowOf returns the row for a number of members in the table of docs/cluster.md.
func rowOf(t *testing.T, page string, members int) (row []float64) {
	t.Helper()
	want := fmt.Sprintf(`(?m)^\| %s \|(.*)\|$`, regexp.QuoteMeta(thousands(members)))
	found := regexp.MustCompile(want).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("docs/cluster.md has no row for %d members", members)
	}
	for cell := range strings.SplitSeq(found[1], "|") {
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		row = append(row, v)
	}
	return row
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// fleet is a set of members on one table, each with a lease. There are no agents, so that
// the fleet is made quickly.
type fleet struct {
	*meter
	store   lease.Store
	table   *dynamocoordinator.Coordinator
	name    string
	members []cluster.Member
	holders []string
	renewal int64
	joined  int // the number of members in the beginning; only their costs are measured
}

func newFleet(t *testing.T, client *dynamodb.Client, members int) *fleet {
	t.Helper()
	name := dynamotest.CreateTable(t, client)
	m := &meter{Client: client}
	f := &fleet{meter: m, store: lease.NewDynamoDB(m, name), table: dynamocoordinator.New(m, name), name: name}
	size := 256
	if members > 200 {
		size = 1024
	}
	open := (size + protocol.GroupSize - 1) / protocol.GroupSize
	if _, err := f.store.WritePool(t.Context(), protocol.CreatePool{Pool: "orders", Size: size, OpenGroups: open, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	// The items are the same as after Pool.Seed and a claim by each member, but writing
	// them this way takes fewer requests.
	for first := 0; first < size; first += batch {
		var puts []types.WriteRequest
		for i := first; i < min(first+batch, size); i++ {
			item := free(i)
			if i < members {
				item = f.claimed(i)
			}
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: item}})
		}
		out, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{name: puts}})
		if err != nil || len(out.UnprocessedItems) > 0 {
			t.Fatal(out, err)
		}
	}
	f.joined = members
	return f
}

// batch is how many items a request may put.
const batch = 25

// free returns the item of a node ID that was never held.
func free(i int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pool_group": &types.AttributeValueMemberS{Value: fmt.Sprintf("orders#%d", i/protocol.GroupSize)}, "node_id": n(int64(i)),
		"version": n(0), "reserved_until": n(time.Now().UnixMilli() - 1000),
	}
}

func n(v int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(v, 10)}
}

// claimed adds a new member to the fleet, and returns the item as it is after an ECS task
// has claimed it. Sessions are the same in each run, since the packed sizes depend on
// them.
func (f *fleet) claimed(i int) map[string]types.AttributeValue {
	random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
	s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
	m := cluster.Member{
		Cluster: "orders", Name: fmt.Sprintf("order-service-%d", i), NodeID: i, SessionID: uuid.Must(uuid.NewRandomFromReader(random)).String(), Version: 1,
		Metadata: map[string]string{"zone": "eu-central-1a", "address": fmt.Sprintf("10.0.%d.%d:8080", i/200, i%200), "build": "2026-11-21.4"},
	}
	m.SessionID = fmt.Sprintf("%08x", i) + m.SessionID[8:] // the first member keeps the digest
	holder, now := uuid.Must(uuid.NewV7()).String(), time.Now().UnixMilli()
	f.members, f.holders = append(f.members, m), append(f.holders, holder)
	metadata := map[string]types.AttributeValue{"node": s(m.Name), "session_id": s(m.SessionID)}
	for name, value := range m.Metadata {
		metadata[name] = s(value)
	}
	item := free(i)
	item["version"], item["renewal"], item["lease_ms"], item["holder"] = n(1), n(0), n(timeout.Milliseconds()), s(holder)
	item["not_before"], item["expires_at"], item["reserved_until"] = n(now-1000), n(now+timeout.Milliseconds()), n(now+timeout.Milliseconds()+1000)
	item["task"] = s("arn:aws:ecs:eu-central-1:123456789012:task/production/0123456789abcdef0123456789abcdef")
	item["metadata"] = &types.AttributeValueMemberM{Value: metadata}
	return item
}

// join puts another member into the table.
func (f *fleet) join(t *testing.T) {
	t.Helper()
	if _, err := f.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &f.name, Item: f.claimed(len(f.members))}); err != nil {
		t.Fatal(err)
	}
}

// unhurried is a time-out that is long enough for a thousand members to take their turns
// in this test.
const unhurried = time.Hour

// typical is how many members besides the first one are measured, as a sample.
const typical = 20

// others scales the cost of some members up to all members except the first.
func (f *fleet) others(took units, measured int) units {
	scale := float64(f.joined-1) / float64(measured)
	return units{scale * took.reads, scale * took.writes}
}

// round makes the first member, and then other members, renew and send a heartbeat. It
// returns the total cost.
func (f *fleet) round(t *testing.T) units {
	t.Helper()
	first := f.turns(t, 0, 1)
	few := min(typical, f.joined-1)
	sum := f.others(f.turns(t, 1, 1+few), few)
	return units{first.reads + sum.reads, first.writes + sum.writes}
}

// turns makes members renew and send a heartbeat.
func (f *fleet) turns(t *testing.T, from, to int) units {
	t.Helper()
	f.reset()
	f.renewal++
	for i, m := range f.members[:to] {
		if i < from {
			continue
		}
		now := time.Now()
		before, err := lease.NewDynamoDB(f.Client, f.name).Get(t.Context(), "orders", i) // not measured
		if err != nil || before == nil {
			t.Fatal(before, err)
		}
		res, err := f.store.Write(t.Context(), protocol.Renew{
			Key: protocol.Key{Pool: "orders", NodeID: i}, Session: f.holders[i], Version: 1, Renewal: f.renewal,
			ExpiresAt: now.Add(timeout), ReservedUntil: now.Add(timeout + time.Second), Confirmed: before.ReservedUntil,
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		snap, err := f.table.Heartbeat(t.Context(), cluster.Beat{Self: m, At: time.Now(), Timeout: unhurried, Oldest: i == 0})
		if err != nil || snap.Warning != nil || len(snap.Members) != len(f.members) {
			t.Fatal(len(snap.Members), err, snap.Warning)
		}
	}
	return f.reset()
}

// look sends the heartbeat of a member that has not read a digest yet.
func (f *fleet) look(t *testing.T) units {
	t.Helper()
	f.reset()
	if _, err := dynamocoordinator.New(f.meter, f.name).Heartbeat(t.Context(), cluster.Beat{Self: f.members[1], At: time.Now(), Timeout: unhurried}); err != nil {
		t.Fatal(err)
	}
	return f.reset()
}

// publish makes every member publish the versions that it knows.
func (f *fleet) publish(t *testing.T) units {
	t.Helper()
	known := cluster.Versions{}
	for _, m := range f.members {
		known[m.Key()] = m.Version
	}
	few := min(typical, f.joined-1)
	for _, m := range f.members[1 : 1+few] {
		if err := f.table.Publish(t.Context(), m, 1, known); err != nil {
			t.Fatal(err)
		}
	}
	f.reset()
	for _, m := range f.members[1 : 1+few] { // once more, now that the items exist
		if err := f.table.Publish(t.Context(), m, 2, known); err != nil {
			t.Fatal(err)
		}
	}
	return f.others(f.reset(), few)
}

// units is a number of capacity units.
type units struct{ reads, writes float64 }

func (u *units) sub(o units) { u.reads, u.writes = u.reads-o.reads, u.writes-o.writes }

// meter is a client that adds up the consumed capacity that the answers report.
type meter struct {
	*dynamodb.Client
	mu  sync.Mutex
	sum units
}

func (m *meter) reset() units {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.sum
	m.sum = units{}
	return sum
}

func (m *meter) took(sum *float64, c *types.ConsumedCapacity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*sum += aws.ToFloat64(c.CapacityUnits)
}

func (m *meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.GetItem(ctx, in, o...)
	if err == nil {
		m.took(&m.sum.reads, out.ConsumedCapacity)
	}
	return out, err
}

func (m *meter) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.Query(ctx, in, o...)
	if err == nil {
		m.took(&m.sum.reads, out.ConsumedCapacity)
	}
	return out, err
}

func (m *meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.Client.UpdateItem(ctx, in, o...)
	if err == nil {
		m.took(&m.sum.writes, out.ConsumedCapacity)
	}
	return out, err
}
