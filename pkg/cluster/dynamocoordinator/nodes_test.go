package dynamocoordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
)

// A heartbeat of a member without a lease that arrives after later ones changes nothing,
// whether the later ones are of the same session or of the next one. So the member is not
// dropped because of it, and no dropped session comes back. A heartbeat with the time of
// the last one, as from a clock that was set back, is recorded. After a clock was an hour
// ahead, its next heartbeat, or the next process, has the right time again at once.
func TestLateHeartbeat(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		c := dynamocoordinator.New(tab.Client("a"), tab.Name)
		send := func(session string, at time.Time) error {
			self := member("a")
			self.SessionID = session
			_, err := c.Heartbeat(t.Context(), cluster.Beat{Self: self, At: at, Timeout: timeout})
			return err
		}
		start := time.Now()
		sent := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
		for _, step := range []struct {
			name    string
			session string
			at      int // seconds after the start
			late    bool
			want    int // seconds after the start, in the record
		}{
			{"the first", "one", 0, false, 0},
			{"the next", "one", 10, false, 10},
			{"late, of the same session", "one", 5, true, 10},
			{"late, the first of its session", "zero", 5, true, 10},
			{"at the same time", "one", 10, false, 10},
			{"of the next session", "two", 20, false, 20},
			{"late, of the previous session", "one", 19, true, 20},
			{"late, of the previous session, at the same time", "one", 20, true, 20},
			{"an hour ahead, and so of another session", "three", 3620, false, 3620},
			{"right again", "three", 30, false, 30},
			{"an hour ahead again", "four", 3640, false, 3640},
			{"of the session after that", "five", 40, false, 40},
		} {
			if err := send(step.session, sent(step.at)); errors.Is(err, cluster.ErrDropped) != step.late || !step.late && err != nil {
				t.Errorf("%s: got %v, want ErrDropped: %v", step.name, err, step.late)
			}
			item := tab.get(t, "orders#node", tab.nodeOf(t, "a"))
			at, _ := strconv.ParseInt(item["heartbeat_at"].(*types.AttributeValueMemberN).Value, 10, 64)
			if got := time.UnixMilli(at); !got.Equal(sent(step.want).Truncate(time.Millisecond)) {
				t.Errorf("%s: got the heartbeat %v after the start in the record, want %d s", step.name, got.Sub(start), step.want)
			}
		}
		if item := tab.get(t, "orders#node", tab.nodeOf(t, "a")); item["session_id"].(*types.AttributeValueMemberS).Value != "five" || item["version"].(*types.AttributeValueMemberN).Value != "5" {
			t.Errorf("got %v, want session five of version 5", item)
		}
	})
}

// crowded is a client that adds items to the members without a lease.
type crowded struct {
	*dynamodb.Client
	items []map[string]types.AttributeValue
}

func (c crowded) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := c.Client.Query(ctx, in, o...)
	if err == nil && in.ExpressionAttributeValues[":partition"].(*types.AttributeValueMemberS).Value == "orders#node" {
		out.Items = append(out.Items, c.items...)
	}
	return out, err
}

// The cluster keeps working with the items that Expire leaves, one for each name that was
// ever used: names of pods change with each deploy. Only items that are in use are bounded,
// with an error that names the remedy.
func TestNamesOfThePast(t *testing.T) {
	for name, c := range map[string]struct {
		inUse bool
		want  string // in the error
	}{"forgotten": {false, ""}, "in use": {true, "names that stay the same across restarts"}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				crowd := crowded{Client: tab.Client("a")}
				for i := range 20_001 {
					item := map[string]types.AttributeValue{
						"pool_group": &types.AttributeValueMemberS{Value: "orders#node"}, "node_id": n(int64(1)<<62 + int64(i)), "version": n(1), "heartbeat_at": n(1),
						"member_name": &types.AttributeValueMemberS{Value: "pod"},
					}
					if c.inUse {
						item["session_id"] = &types.AttributeValueMemberS{Value: "session"}
					}
					crowd.items = append(crowd.items, item)
				}
				snap, err := dynamocoordinator.New(crowd, tab.Name).Heartbeat(t.Context(), cluster.Beat{Self: member("a"), At: time.Now(), Timeout: timeout})
				if c.want == "" && (err != nil || len(snap.Members) != 1) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %d members and the error %v, want one member, or an error with %q", len(snap.Members), err, c.want)
				}
			})
		})
	}
}

// An item that was broken by hand, so that it lacks the time that Expire compares, keeps no
// other record from being forgotten.
func TestExpireBesideABrokenItem(t *testing.T) {
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		c := dynamocoordinator.New(tab.Client("a"), tab.Name)
		if _, err := c.Heartbeat(t.Context(), cluster.Beat{Self: member("a"), At: time.Now(), Timeout: timeout}); err != nil {
			t.Fatal(err)
		}
		if err := c.Publish(t.Context(), member("a"), 1, cluster.Versions{"@a": 1}); err != nil {
			t.Fatal(err)
		}
		intact, broken := tab.nodeOf(t, "a"), int64(7) // which comes first
		tab.set(t, "orders#node", broken, "session_id", text("by hand"))
		tab.set(t, "orders#known", broken, "known", &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}})
		fixture.Wait(25 * time.Hour)
		if err := c.Expire(t.Context(), "orders", 24*time.Hour); err != nil {
			t.Error(err)
		}
		for partition, attribute := range map[string]string{"orders#node": "session_id", "orders#known": "known"} {
			if item := tab.get(t, partition, intact); item[attribute] != nil {
				t.Errorf("the record in %s was not forgotten: %v", partition, item)
			}
			if item := tab.get(t, partition, broken); item[attribute] != nil {
				t.Errorf("the broken item in %s was not forgotten: %v", partition, item)
			}
		}
	})
}

// A record whose time was broken by hand, so that it is missing or no number, keeps its name
// only until the next session. The same is true of a publication whose version or revision
// was broken.
func TestBrokenRecordIsReplaced(t *testing.T) {
	text := &types.AttributeValueMemberS{Value: "by hand"}
	for name, broken := range map[string]types.AttributeValue{"no number": text, "missing": nil} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				c := dynamocoordinator.New(tab.Client("a"), tab.Name)
				beat(t, c, "a", false)
				if err := c.Publish(t.Context(), member("a"), 1, cluster.Versions{"@a": 1}); err != nil {
					t.Fatal(err)
				}
				node := tab.nodeOf(t, "a")
				for partition, attributes := range map[string][]string{"orders#node": {"heartbeat_at"}, "orders#known": {"version", "revision"}} {
					item := tab.get(t, partition, node)
					for _, attribute := range attributes {
						if item[attribute] = broken; broken == nil {
							delete(item, attribute)
						}
					}
					if _, err := tab.Client("").PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tab.Name, Item: item}); err != nil {
						t.Fatal(err)
					}
				}
				fixture.Wait(time.Second)
				next := member("a")
				next.SessionID = "the next session"
				snap, err := c.Heartbeat(t.Context(), cluster.Beat{Self: next, At: time.Now(), Timeout: timeout})
				if err != nil || len(snap.Members) != 1 || !snap.Members[0].Same(next) {
					t.Errorf("got %+v, %v, want the next session", snap.Members, err)
				}
				if err := c.Publish(t.Context(), next, 2, cluster.Versions{"@a": 2}); err != nil {
					t.Fatal(err)
				}
				if known, err := c.Known(t.Context(), "orders"); err != nil || known["@a"]["@a"] != 2 {
					t.Errorf("got the known versions %v, %v, want those of the next session", known, err)
				}
			})
		})
	}
}

// A record whose version was broken by hand keeps its name only until the next session, whose
// version is higher than any that sessions have counted to.
func TestBrokenVersionIsReplaced(t *testing.T) {
	for name, broken := range map[string]types.AttributeValue{
		"no number": &types.AttributeValueMemberS{Value: "7"}, "too high": n(math.MaxInt64), "negative": n(-7),
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				tab := newTable(t)
				c := dynamocoordinator.New(tab.Client("a"), tab.Name)
				beat(t, c, "a", false)
				tab.set(t, "orders#node", tab.nodeOf(t, "a"), "version", broken)
				var version int64
				for i := range 3 {
					fixture.Wait(time.Second)
					next := member("a")
					next.SessionID = fmt.Sprint("the next session ", i)
					snap, err := c.Heartbeat(t.Context(), cluster.Beat{Self: next, At: time.Now(), Timeout: timeout})
					if err != nil || len(snap.Members) != 1 || !snap.Members[0].Same(next) {
						t.Fatalf("got %+v, %v, want the next session", snap.Members, err)
					}
					if got := snap.Members[0].Version; got < 1000 || i > 0 && got != version+1 {
						t.Errorf("session %d: got version %d after %d", i, got, version)
					}
					version = snap.Members[0].Version
				}
			})
		})
	}
}

// A record that a clock left which was an hour ahead is no member, so the cluster has a leader
// although its writer has ended.
func TestRecordFarAheadIsNoMember(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		c := dynamocoordinator.New(tab.Client("a"), tab.Name)
		beat(t, c, "gone", false)
		tab.set(t, "orders#node", tab.nodeOf(t, "gone"), "heartbeat_at", n(time.Now().Add(time.Hour).UnixMilli()))
		snap, err := c.Heartbeat(t.Context(), cluster.Beat{Self: member("a"), At: time.Now(), Timeout: timeout})
		if err != nil || len(snap.Members) != 1 {
			t.Errorf("got %+v, %v, want a only", snap.Members, err)
		}
	})
}

// A process whose clock is slow sees the records of all others far ahead. It forgets none of
// them, because they change: the members that write them would have to begin new sessions.
func TestSlowClockForgetsNoMember(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		c := dynamocoordinator.New(tab.Client("slow"), tab.Name)
		beat(t, c, "live", false)
		beat(t, c, "gone", false)
		live, gone := tab.nodeOf(t, "live"), tab.nodeOf(t, "gone")
		tab.set(t, "orders#node", gone, "heartbeat_at", n(time.Now().Add(9*time.Hour).UnixMilli()))
		for i, want := range []bool{true, true, false} {
			tab.set(t, "orders#node", live, "heartbeat_at", n(time.Now().Add(8*time.Hour).UnixMilli()))
			if err := c.Expire(t.Context(), "orders", 24*time.Hour); err != nil {
				t.Error(err)
			}
			if item := tab.get(t, "orders#node", live); item["session_id"] == nil {
				t.Fatalf("run %d: the record of a live member was forgotten: %v", i, item)
			}
			if item := tab.get(t, "orders#node", gone); (item["session_id"] != nil) != want {
				t.Errorf("run %d: got %v, want it forgotten: %v", i, item, !want)
			}
			fixture.Wait([]time.Duration{time.Minute, time.Hour, 0}[i])
		}
	})
}

// A member whose clock was set back by almost MaxClockBack goes on, with the time of its last
// heartbeat. So others count it, too, although their clocks are slower than its own.
func TestMemberThatWaitsForItsClock(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		c := dynamocoordinator.New(tab.Client("a"), tab.Name)
		beat(t, c, "waiting", false)
		tab.set(t, "orders#node", tab.nodeOf(t, "waiting"), "heartbeat_at", n(time.Now().Add(cluster.MaxClockBack+time.Second).UnixMilli()))
		snap, err := c.Heartbeat(t.Context(), cluster.Beat{Self: member("a"), At: time.Now(), Timeout: timeout})
		if err != nil || len(snap.Members) != 2 {
			t.Errorf("got %+v, %v, want both members", snap.Members, err)
		}
	})
}

// A process whose clock is slow sees the other members, because their records change, and so
// does not lead beside them. A record that no longer changes is no member after a time-out.
func TestSlowClockSeesTheOthers(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t)
		slow := dynamocoordinator.New(tab.Client("slow"), tab.Name)
		beat(t, slow, "live", false)
		for i, want := range []int{1, 2, 2, 2, 1} { // the first read cannot tell
			if i < 3 {
				tab.set(t, "orders#node", tab.nodeOf(t, "live"), "heartbeat_at", n(time.Now().Add(time.Hour).UnixMilli()))
			}
			snap, err := slow.Heartbeat(t.Context(), cluster.Beat{Self: member("slow"), At: time.Now(), Timeout: timeout})
			if err != nil || len(snap.Members) != want {
				t.Errorf("heartbeat %d: got %+v, %v, want %d members", i, snap.Members, err, want)
			}
			fixture.Wait(2 * timeout / 3)
		}
	})
}
