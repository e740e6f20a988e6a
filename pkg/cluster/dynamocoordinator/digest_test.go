package dynamocoordinator_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/lease"
)

const timeout = lease.DefaultTTL

// table is the table of the leases in virtual time. Tests change its items.
type table struct{ *fixture.Table }

func newTable(t *testing.T) table {
	t.Helper()
	return table{fixture.NewTable(t, 0)}
}

// beat sends the heartbeat of a member without a lease, and counts the members that it
// sees.
func beat(t *testing.T, c cluster.Coordinator, name string, oldest bool) int {
	t.Helper()
	snap, err := c.Heartbeat(t.Context(), cluster.Beat{
		At:      time.Now(),
		Self:    cluster.Member{Cluster: "orders", Name: name, NodeID: cluster.NoNodeID, SessionID: "session of " + name},
		Timeout: timeout, Oldest: oldest,
	})
	if err != nil || snap.Warning != nil {
		t.Fatal(err, snap.Warning)
	}
	return len(snap.Members)
}

// Two members believe that they are the oldest, and both write the digest. Whatever they
// overwrite, readers see only members that exist.
func TestTwoWritersOfTheDigest(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		one, two, reader := dynamocoordinator.New(tab.Client("1"), tab.Name), dynamocoordinator.New(tab.Client("2"), tab.Name), dynamocoordinator.New(tab.Client("r"), tab.Name)
		beat(t, reader, "r", false)
		for i := range 20 {
			fixture.Wait(time.Second)
			beat(t, one, "a", true)
			if i%3 > 0 {
				beat(t, one, "a", true)
			}
			beat(t, two, "b", true)
			beat(t, two, fmt.Sprint("c", i/4), i%2 == 0)
			if got, most := beat(t, reader, "r", false), 3+i/4+1; got > most || i > 2 && got < most-1 {
				t.Errorf("round %d: got %d members, want %d", i, got, most)
			}
		}
	})
}

// A part whose content does not match item 0 is not used: the reader reads the leases
// itself, without a failure.
func TestPartThatDoesNotMatch(t *testing.T) {
	phantom := `[{"cluster":"orders","name":"a","node_id":-1,"session_id":"session of a","version":1},
		{"cluster":"orders","name":"phantom","node_id":-1,"session_id":"session of b","version":1},
		{"cluster":"orders","name":"r","node_id":-1,"session_id":"session of r","version":1}]`
	for name, members := range map[string]string{
		"another content": packed(t, []byte(phantom)),
		"not base64":      "\x00",
		"not gzip":        "AAAA",
		"not JSON":        packed(t, []byte("{")),
		"cut in half":     packed(t, []byte(phantom))[:20],
		"100 MB of zeros": packed(t, make([]byte, 100<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				writer, reader := dynamocoordinator.New(tab.Client("w"), tab.Name), dynamocoordinator.New(tab.Client("r"), tab.Name)
				beat(t, writer, "a", true)
				beat(t, reader, "r", false)
				beat(t, writer, "a", true)
				tab.set(t, "orders#digest", 257, "members", &types.AttributeValueMemberS{Value: members})
				tab.Count("r Query")
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if got := beat(t, reader, "r", false); got != 2 {
					t.Errorf("%d members, want 2", got)
				}
				runtime.ReadMemStats(&after)
				if tab.Count("r Query") == 0 {
					t.Error("the reader did not read the leases itself")
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > 20<<20 {
					t.Errorf("the reader took %d MB of memory", took>>20)
				}
			})
		})
	}
}

// packed packs content as a keeper does, but without a limit to its length.
func packed(t *testing.T, content []byte) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// set changes one attribute of an item.
func (tab table) set(t *testing.T, partition string, node int64, name string, value types.AttributeValue) {
	t.Helper()
	if _, err := tab.Client("").UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &tab.Name, UpdateExpression: aws.String("SET " + name + " = :value"),
		Key:                       map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: partition}, "node_id": n(node)},
		ExpressionAttributeValues: map[string]types.AttributeValue{":value": value},
	}); err != nil {
		t.Fatal(err)
	}
}

// get returns one item.
func (tab table) get(t *testing.T, partition string, node int64) map[string]types.AttributeValue {
	t.Helper()
	out, err := tab.Client("").GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &tab.Name, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: partition}, "node_id": n(node)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// forge replaces the digest with one that has different content and matching hashes, as
// anyone with write access to the table can.
func (tab table) forge(t *testing.T, content string, written time.Time) {
	t.Helper()
	sum := sha256.Sum256([]byte(content))
	beat, _ := strconv.ParseInt(tab.get(t, "orders#digest", 0)["beat"].(*types.AttributeValueMemberN).Value, 10, 64)
	tab.set(t, "orders#digest", 257, "members", &types.AttributeValueMemberS{Value: packed(t, []byte(content))})
	tab.set(t, "orders#digest", 0, "parts", &types.AttributeValueMemberS{Value: "256=" + base64.RawURLEncoding.EncodeToString(sum[:12])})
	tab.set(t, "orders#digest", 0, "written_at", n(written.UnixMilli()))
	tab.set(t, "orders#digest", 0, "beat", n(beat+1))
}

// A reader believes a digest only if the digest contains the reader, the clocks of the
// reader and the keeper agree, and the leader's own item shows that the leader is alive.
// Otherwise it reads the leases itself, also when it reads the same digest again.
func TestDigestThatIsNotBelieved(t *testing.T) {
	member := func(name, session string) string {
		return fmt.Sprintf(`{"cluster":"orders","name":%q,"node_id":-1,"session_id":%q,"version":1}`, name, session)
	}
	a, r := member("a", "session of a"), member("r", "session of r")
	for name, c := range map[string]struct {
		content string
		ahead   time.Duration
		looks   bool
	}{
		"as it should be":          {"[" + a + "," + r + "]", 0, false},
		"a phantom leads":          {"[" + member("phantom", "0") + "," + a + "," + r + "]", 0, true},
		"the leader left long ago": {"[" + member("gone", "session of a0") + "," + r + "]", 0, true},
		"the reader is missing":    {"[" + a + "]", 0, true},
		"the reader leads":         {"[" + r + "]", 0, true},
		"the clock is ahead":       {"[" + a + "," + r + "]", 10 * time.Second, true},
		"the clock is behind":      {"[" + a + "," + r + "]", -10 * time.Second, true},
		"a member out of bounds":   {"[" + a + "," + member("evil\u202e", "session of e") + "," + r + "]", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				writer, reader := dynamocoordinator.New(tab.Client("w"), tab.Name), dynamocoordinator.New(tab.Client("r"), tab.Name)
				beat(t, writer, "gone", false) // its last heartbeat
				tab.set(t, "orders#node", tab.nodeOf(t, "gone"), "session_id", &types.AttributeValueMemberS{Value: "session of a0"})
				fixture.Wait(2 * timeout)
				beat(t, writer, "a", true)
				beat(t, reader, "r", false)
				beat(t, writer, "a", true)
				beat(t, reader, "r", false)
				fixture.Wait(time.Second)
				tab.forge(t, c.content, time.Now().Add(c.ahead))
				for i := range 3 {
					tab.Count("r Query")
					if got := beat(t, reader, "r", false); got != 2 {
						t.Errorf("heartbeat %d: got %d members, want a and r", i, got)
					}
					if looked := tab.Count("r Query") > 0; looked != c.looks {
						t.Errorf("heartbeat %d: the reader read the leases itself: got %v, want %v", i, looked, c.looks)
					}
					fixture.Wait(time.Second)
				}
			})
		})
	}
}

// nodeOf returns the sort key of a member without a lease.
func (tab table) nodeOf(t *testing.T, name string) int64 {
	t.Helper()
	out, err := tab.Client("").Query(t.Context(), &dynamodb.QueryInput{
		TableName: &tab.Name, KeyConditionExpression: aws.String("pool_group = :p"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: "orders#node"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range out.Items {
		if item["member_name"].(*types.AttributeValueMemberS).Value == name {
			node, _ := strconv.ParseInt(item["node_id"].(*types.AttributeValueMemberN).Value, 10, 64)
			return node
		}
	}
	t.Fatalf("%s has no item", name)
	return 0
}

// If a keeper dies after it has written a part, or if its write of the part arrives late,
// the next keeper repairs the digest. From then on, readers need not read the leases
// themselves.
func TestTornDigestIsRepaired(t *testing.T) {
	for name, writes := range map[string]int{"the other died after its part": 3, "the other's part comes late": 2} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				writer, reader := dynamocoordinator.New(tab.Client("w"), tab.Name), dynamocoordinator.New(tab.Client("r"), tab.Name)
				other := dynamocoordinator.New(tab.CutOff("o"), tab.Name)
				beat(t, writer, "a", true)
				beat(t, reader, "r", false)
				beat(t, writer, "a", true)
				beat(t, other, "o", false)
				tab.Writes(writes) // at most the writes of its heartbeat, the claim and the part succeed
				if snap, err := other.Heartbeat(t.Context(), cluster.Beat{Self: member("o"), At: time.Now(), Timeout: timeout, Oldest: true}); err != nil || snap.Warning == nil {
					t.Fatal(snap.Warning, err)
				}
				tab.Writes(1 << 30)
				looks := 0
				for i := range 30 {
					if i == 5 {
						tab.Late()
					}
					if i == 7 { // a reader that has not read any part yet
						reader = dynamocoordinator.New(tab.Client("r"), tab.Name)
						beat(t, reader, "r", false)
						tab.Count("r Query")
					}
					fixture.Wait(time.Second)
					beat(t, other, "o", false)
					beat(t, other, "joined since", false) // so that the late part differs
					beat(t, writer, "a", true)
					beat(t, reader, "r", false)
					if tab.Count("r Query") > 0 && i > 2 {
						looks++
					}
				}
				if looks > 0 {
					t.Errorf("the reader read the leases itself %d times of 27", looks)
				}
			})
		})
	}
}

// If the beat of item 0 or of a part was broken by hand, the keeper writes the item all the
// same, within a few heartbeats. From then on, readers need not read the leases themselves.
func TestBrokenBeatIsReplaced(t *testing.T) {
	text := &types.AttributeValueMemberS{Value: "by hand"}
	for name, c := range map[string]struct {
		item int64
		beat types.AttributeValue
	}{
		"item 0, no number":   {0, text},
		"item 0, a fraction":  {0, &types.AttributeValueMemberN{Value: "1.5"}},
		"item 0, too high":    {0, &types.AttributeValueMemberN{Value: "1e30"}},
		"item 0, the most":    {0, n(1 << 53)},
		"item 0, the highest": {0, n(1<<52 + 1<<40 - 1)},
		"a part, no number":   {257, text},
		"a part, high":        {257, n(1e9)},
		"a part, too high":    {257, &types.AttributeValueMemberN{Value: "1e30"}},
		"a part, the most":    {257, n(1 << 53)},
		"a part, a timestamp": {257, n(8_000_000_000_000_000)},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				writer, reader := dynamocoordinator.New(tab.Client("w"), tab.Name), dynamocoordinator.New(tab.Client("r"), tab.Name)
				for range 3 {
					beat(t, writer, "a", true)
					beat(t, reader, "r", false)
				}
				tab.set(t, "orders#digest", c.item, "beat", c.beat)
				looks := 0
				for i := range 10 {
					fixture.Wait(time.Second)
					beat(t, writer, fmt.Sprint("joined ", i), false) // so that the part changes
					beat(t, writer, "a", true)
					if i == 3 { // a reader that has not read any part yet
						reader = dynamocoordinator.New(tab.Client("r"), tab.Name)
					}
					tab.Count("r Query")
					if got := beat(t, reader, "r", false); got != i+3 && i > 0 {
						t.Errorf("heartbeat %d: got %d members, want %d", i, got, i+3)
					}
					if i > 3 {
						looks += tab.Count("r Query")
					}
				}
				if looks > 0 {
					t.Errorf("the reader sent %d Queries of its own, want none", looks)
				}
			})
		})
	}
}

func member(name string) cluster.Member {
	return cluster.Member{Cluster: "orders", Name: name, NodeID: cluster.NoNodeID, SessionID: "session of " + name}
}

// If the digest cannot be written, the heartbeat returns a warning, and does not fail.
func TestDigestThatCannotBeWritten(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		writer := dynamocoordinator.New(tab.CutOff("o"), tab.Name)
		tab.Writes(2) // its first heartbeat writes twice
		snap, err := writer.Heartbeat(t.Context(), cluster.Beat{Self: member("a"), At: time.Now(), Timeout: timeout, Oldest: true})
		if err != nil || snap.Warning == nil || len(snap.Members) != 1 {
			t.Errorf("got %+v, %v, want a member and a warning", snap, err)
		}
	})
}

// Members without a lease are spread over parts, so that thousands of them fit, even if
// each has as much metadata as is allowed. Item 0 has one copy for every few thousand
// members.
func TestManyMembersWithoutALease(t *testing.T) {
	members := 5000
	if testing.Short() {
		members = 500
	}
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		writer, reader := dynamocoordinator.New(tab.Client("w"), tab.Name), dynamocoordinator.New(tab.Client("r"), tab.Name)
		text := make([]byte, 250)
		for i := range members {
			_, _ = rand.Read(text) // never fails; random data cannot be compressed
			m := member(fmt.Sprint("m", i))
			item := map[string]types.AttributeValue{
				"pool_group": &types.AttributeValueMemberS{Value: "orders#node"}, "node_id": n(int64(i)), "heartbeat_at": n(time.Now().UnixMilli()), "version": n(1),
				"member_name": &types.AttributeValueMemberS{Value: m.Name}, "session_id": &types.AttributeValueMemberS{Value: m.SessionID},
				"metadata": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"x": &types.AttributeValueMemberS{Value: hex.EncodeToString(text)}}},
			}
			if _, err := tab.Client("").PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tab.Name, Item: item}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			beat(t, writer, "a", true)
			beat(t, reader, "r", false)
		}
		tab.Count("r Query")
		if got := beat(t, reader, "r", false); got != members+2 || tab.Count("r Query") > 0 {
			t.Errorf("%d members, want %d by the digest", got, members+2)
		}
		if copies := len(tab.get(t, "orders#digest#1", 0)) > 0; copies != (members > 4096) {
			t.Errorf("got a copy of item 0: %v, want one only above 4,096 members", copies)
		}
		for _, broken := range []int64{1e9, 1 << 53} { // a beat that was written by hand
			tab.set(t, "orders#digest#1", 0, "beat", n(broken))
			for range 2 {
				fixture.Wait(time.Second)
				beat(t, writer, "a", true)
			}
			item, ok := tab.get(t, "orders#digest", 0)["beat"].(*types.AttributeValueMemberN)
			copied, _ := tab.get(t, "orders#digest#1", 0)["beat"].(*types.AttributeValueMemberN)
			if members > 4096 && (!ok || copied == nil || copied.Value != item.Value) {
				t.Errorf("a copy with the beat %d: got %+v, want the beat of item 0: %+v", broken, copied, item)
			}
		}
	})
}
