package ui

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
)

// An item that somebody put into a group's partition may have any key. The page shows the
// node IDs of the group, and no others.
func TestForeignKeysInAGroup(t *testing.T) {
	for name, key := range map[string]string{"of another group": "70000", "of no group": "1e20", "a fraction": "300.5"} {
		tab := fixture.NewTable(t, 512)
		_, err := tab.Client("").PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tab.Name, Item: map[string]types.AttributeValue{
			"pool_group": &types.AttributeValueMemberS{Value: "orders#1"}, "node_id": &types.AttributeValueMemberN{Value: key},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tab.Store("page").Group(t.Context(), "orders", 1)
		if err != nil || len(got.Corrupt) != 1 {
			t.Fatalf("%s: %d corrupt items, error %v, want 1", name, len(got.Corrupt), err)
		}
		m := &model{pool: protocol.PoolItem{Pool: "orders", Size: 512, OpenGroups: 2}}
		m.read(1, got, time.Now(), newChange())
		if g := m.groups[1]; len(g.nodeIDs) != protocol.GroupSize || g.counts.of(missing)+g.counts.of(corrupt) > 0 {
			t.Errorf("%s: %d node IDs, counts %v, want %d free", name, len(g.nodeIDs), g.counts, protocol.GroupSize)
		}
	}
}
