package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The partition <pool>#known has one item for each member: the versions that it knows.

// Publish implements [Coordinator].
func (t *Table) Publish(ctx context.Context, m Member, revision int64, known Versions) error {
	versions := attributes{}
	for key, version := range known {
		versions[key] = num(version)
	}
	_, err := t.update(ctx, m.Cluster+"#known", sortKey(m), "SET member_key = :key, known = :known, version = :version, revision = :revision, published_at = :now",
		"attribute_not_exists(version) OR version < :version OR (version = :version AND revision < :revision)", attributes{
			":key": str(m.Key()), ":known": &types.AttributeValueMemberM{Value: versions}, ":version": num(m.Version), ":revision": num(revision),
			":now": num(time.Now().UnixMilli()),
		})
	return err
}

// Known implements [Coordinator].
func (t *Table) Known(ctx context.Context, cluster string) (map[string]Versions, error) {
	all := map[string]Versions{}
	for item, err := range t.query(ctx, cluster+"#known") {
		if err != nil {
			return nil, err
		}
		m, ok := item["known"].(*types.AttributeValueMemberM)
		key := text(item["member_key"])
		if !ok || len(m.Value) > 2*maxKnown || len(key) > maxKey {
			continue // cleared, or more than any member publishes
		}
		known := Versions{}
		for key, version := range m.Value {
			if n := number(version); len(key) <= maxKey && n >= 0 && n <= maxVersion {
				known[key] = n
			}
		}
		if len(all) > 2*maxKnown {
			return nil, fmt.Errorf("cluster: more than %d members publish what they know, at most %d do: delete the foreign items of the partition %s#known", 2*maxKnown, maxKnown, cluster)
		}
		all[key] = known
	}
	return all, nil
}

// forgetKnown removes the known versions of members that have gone. The version and
// the revision stay, so that no late write restores them.
func (t *Table) forgetKnown(ctx context.Context, cluster string, oldest time.Time) error {
	var old []attributes
	for item, err := range t.query(ctx, cluster+"#known") {
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
	members, err := t.all(ctx, cluster, time.Now(), time.Since(oldest))
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, m := range members {
		alive[m.Key()] = true // its old publication is still valid
	}
	for _, item := range old {
		if alive[text(item["member_key"])] {
			continue
		}
		_, err := t.update(ctx, cluster+"#known", number(item["node_id"]), "REMOVE known, published_at", "published_at = :seen", attributes{":seen": item["published_at"]})
		if err != nil {
			return err
		}
	}
	return nil
}
