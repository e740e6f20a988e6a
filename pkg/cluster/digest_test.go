package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
)

// beat lets a member without a lease heartbeat, and counts whom it sees.
func beat(t *testing.T, c cluster.Coordinator, name string, oldest bool) int {
	t.Helper()
	members, err := c.Heartbeat(t.Context(), cluster.Beat{
		Self:    cluster.Member{Cluster: "orders", NodeID: name, Number: cluster.NoNumber, SessionID: "session of " + name},
		Timeout: timeout, Oldest: oldest,
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(members)
}

// Two members think that they are the oldest, and both write the digest: whatever
// they do to each other, nobody sees what was not there.
func TestTwoWritersOfTheDigest(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 0)
		one, two, reader := cluster.NewTable(tab.client("1"), tab.name), cluster.NewTable(tab.client("2"), tab.name), cluster.NewTable(tab.client("r"), tab.name)
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
				t.Errorf("round %d: %d members, there are %d", i, got, most)
			}
		}
	})
}

// A part that is not what item 0 says is not used: the reader looks for itself.
func TestPartThatDoesNotMatch(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		tab := newTable(t, 0)
		writer := cluster.NewTable(tab.client("w"), tab.name)
		beat(t, writer, "a", true)
		reader := cluster.NewTable(tab.client("r"), tab.name)
		beat(t, reader, "r", false)
		beat(t, writer, "a", true)
		if _, err := tab.client("").UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &tab.name, UpdateExpression: aws.String("SET content_hash = :h"),
			Key:                       map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders#digest"}, "node_id": &types.AttributeValueMemberN{Value: "257"}},
			ExpressionAttributeValues: map[string]types.AttributeValue{":h": &types.AttributeValueMemberS{Value: "another"}},
		}); err != nil {
			t.Fatal(err)
		}
		tab.count("r Query")
		if got := beat(t, reader, "r", false); got != 2 {
			t.Errorf("%d members", got)
		}
		if tab.count("r Query") == 0 {
			t.Error("the reader did not look for itself")
		}
	})
}
