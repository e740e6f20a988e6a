package dynamocoordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// The partition <pool>#known contains one item for each member, with the versions that
// the member knows.

// Bounds of the versions that a member publishes.
const (
	maxKey     = 129 // bytes of a member's key: its node ID, or its name after an "@"
	maxVersion = 1 << 53
)

// Publish implements [cluster.Coordinator].
func (c *Coordinator) Publish(ctx context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	versions := attributes{}
	for key, version := range known {
		versions[key] = num(version)
	}
	// Invariant (liveness): an item that was broken by hand, so that its version or its revision
	// is missing or has another type, is replaced, because a comparison with it is false.
	_, err := c.update(ctx, m.Cluster+"#known", sortKey(m), "SET member_key = :key, known = :known, version = :version, revision = :revision, published_at = :now",
		"NOT (version > :version OR (version = :version AND revision >= :revision))", attributes{
			":key": str(m.Key()), ":known": &types.AttributeValueMemberM{Value: versions}, ":version": num(m.Version), ":revision": num(revision),
			":now": num(time.Now().UnixMilli()),
		})
	return err
}

// Known implements [cluster.Coordinator].
func (c *Coordinator) Known(ctx context.Context, clusterName string) (map[string]cluster.Versions, error) {
	all := map[string]cluster.Versions{}
	for item, err := range c.query(ctx, clusterName+"#known") {
		if err != nil {
			return nil, err
		}
		m, ok := item["known"].(*types.AttributeValueMemberM)
		key := text(item["member_key"])
		if !ok || len(m.Value) > 2*cluster.MaxKnown || len(key) > maxKey {
			continue // forgotten, or more than any member publishes
		}
		known := cluster.Versions{}
		for key, version := range m.Value {
			if n := number(version); len(key) <= maxKey && n >= 0 && n <= maxVersion {
				known[key] = n
			}
		}
		if len(all) > 2*cluster.MaxKnown {
			return nil, fmt.Errorf("dynamocoordinator: more than %d members publish known versions, the most in a cluster is %d: delete the foreign items of the partition %s#known", 2*cluster.MaxKnown, cluster.MaxKnown, clusterName)
		}
		all[key] = known
	}
	return all, nil
}

// forgetKnown removes the known versions of members that have gone. The version and the
// revision of each publication stay, so that no late write restores the known versions.
func (c *Coordinator) forgetKnown(ctx context.Context, clusterName string, oldest time.Time) error {
	var old []attributes
	for item, err := range c.query(ctx, clusterName+"#known") {
		if err != nil {
			return err
		}
		if item["known"] != nil && time.UnixMilli(number(item["published_at"])).Before(oldest) {
			old = append(old, item)
		}
	}
	if len(old) == 0 {
		return nil
	}
	members, err := c.all(ctx, clusterName, time.Now(), time.Since(oldest))
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, m := range members {
		alive[m.Key()] = true // the member's old publication is still valid
	}
	for _, item := range old {
		if alive[text(item["member_key"])] {
			continue
		}
		values := attributes{}
		unchanged := still(item, "published_at", values)
		if _, err := c.update(ctx, clusterName+"#known", number(item["node_id"]), "REMOVE known, published_at", unchanged, values); err != nil {
			return err
		}
	}
	return nil
}
