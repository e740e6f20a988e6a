package cluster

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Members without a lease have an item of their own in the table, <pool>#node,
// by a hash of their name.

// sortKey is where a member's own items stand: its number, or a hash that no
// number is.
func sortKey(m Member) int64 {
	if m.Number != NoNumber {
		return int64(m.Number)
	}
	h := fnv.New64a()
	h.Write([]byte(m.NodeID))
	return int64(h.Sum64()>>2 | 1<<62)
}

// beat records the heartbeat of a member without a lease. The version grows with
// each session: the first write of one is another one than those that follow.
func (t *Table) beat(ctx context.Context, m Member) error {
	metadata := attributes{}
	for name, value := range m.Metadata {
		metadata[name] = str(value)
	}
	values := attributes{
		":session": str(m.SessionID), ":now": num(time.Now().UnixMilli()), ":name": str(m.NodeID),
		":metadata": &types.AttributeValueMemberM{Value: metadata},
	}
	partition, node := m.Cluster+"#node", sortKey(m)
	item, err := t.update(ctx, partition, node, "SET heartbeat_at = :now, member_name = :name, metadata = :metadata", "session_id = :session", values)
	if item != nil || err != nil {
		return err
	}
	values[":zero"], values[":one"] = num(0), num(1)
	_, err = t.update(ctx, partition, node,
		"SET heartbeat_at = :now, member_name = :name, metadata = :metadata, session_id = :session, version = if_not_exists(version, :zero) + :one",
		"attribute_not_exists(session_id) OR session_id <> :session", values)
	return err
}

// nodes reads the members without a lease.
func (t *Table) nodes(ctx context.Context, cluster string, oldest time.Time) (members []Member, err error) {
	for item, err := range t.query(ctx, cluster+"#node") {
		if err != nil {
			return nil, err
		}
		m := Member{
			Cluster: cluster, NodeID: text(item["member_name"]), Number: NoNumber, SessionID: text(item["session_id"]), Version: number(item["version"]),
			Heartbeat: time.UnixMilli(number(item["heartbeat_at"])).UTC(),
		}
		if m.SessionID == "" || m.Heartbeat.Before(oldest) {
			continue
		}
		if said, ok := item["metadata"].(*types.AttributeValueMemberM); ok && len(said.Value) > 0 {
			m.Metadata = map[string]string{}
			for name, value := range said.Value {
				m.Metadata[name] = text(value)
			}
		}
		members = append(members, m)
	}
	return members, nil
}

// Expire implements [Coordinator]. It concerns members without a lease; leases are
// the reaper's. An item stays, with its version.
func (t *Table) Expire(ctx context.Context, cluster string, age time.Duration) error {
	oldest := time.Now().Add(-age)
	for item, err := range t.query(ctx, cluster+"#node") {
		if err != nil {
			return err
		}
		session := text(item["session_id"])
		if session == "" || !time.UnixMilli(number(item["heartbeat_at"])).Before(oldest) {
			continue
		}
		_, err := t.update(ctx, cluster+"#node", number(item["node_id"]), "REMOVE session_id, metadata",
			"session_id = :session AND heartbeat_at = :seen", attributes{":session": str(session), ":seen": item["heartbeat_at"]})
		if err != nil {
			return err
		}
	}
	return nil
}
