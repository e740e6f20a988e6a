package dynamocoordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/cluster"
)

// The partition <pool>#node contains one item for each member without a lease. Its sort
// key is a hash of the member's name.

// sortKey returns the sort key of a member's own items: its node ID, or a hash that no
// node ID equals.
func sortKey(m cluster.Member) int64 {
	if m.NodeID != cluster.NoNodeID {
		return int64(m.NodeID)
	}
	return int64(hashOf(m.Name)>>2 | 1<<62) //nolint:gosec // two bits are shifted out
}

// beat records the heartbeat of a member without a lease. The first heartbeat of a
// session also increments the version. A session that was silent for longer than the
// time-out is not recorded again. The recorded time is the time at which the heartbeat
// was sent, so a heartbeat that arrives late does not revive a member.
//
// Invariant: heartbeat_at goes back only by more than MaxClockBack, and a session begins
// later than the heartbeats of the previous one. So a heartbeat that arrives after later
// ones neither makes its session look older than it is, nor replaces a later session. What
// a clock recorded that was far ahead is replaced at once, and so is a time that no member
// wrote: a comparison with an attribute that is missing or has another type is false.
func (c *Coordinator) beat(ctx context.Context, b cluster.Beat) error {
	m := b.Self
	metadata := attributes{}
	for name, value := range m.Metadata {
		metadata[name] = str(value)
	}
	values := attributes{
		":session": str(m.SessionID), ":now": num(b.At.UnixMilli()), ":name": str(m.Name),
		":metadata": &types.AttributeValueMemberM{Value: metadata},
	}
	partition, node := m.Cluster+"#node", sortKey(m)
	values[":oldest"], values[":ahead"] = num(b.At.Add(-b.Timeout).UnixMilli()), num(b.At.Add(cluster.MaxClockBack).UnixMilli())
	item, err := c.update(ctx, partition, node, "SET heartbeat_at = :now, member_name = :name, metadata = :metadata", "session_id = :session AND heartbeat_at >= :oldest AND (heartbeat_at <= :now OR heartbeat_at > :ahead)", values)
	if item != nil || err != nil {
		return err
	}
	delete(values, ":oldest")
	values[":zero"], values[":one"], values[":most"] = num(0), num(1), num(maxVersion-1)
	const (
		set  = "SET heartbeat_at = :now, member_name = :name, metadata = :metadata, session_id = :session, version = "
		next = "(attribute_not_exists(session_id) OR (session_id <> :session AND NOT heartbeat_at BETWEEN :now AND :ahead)) AND "
	)
	item, err = c.update(ctx, partition, node, set+"if_not_exists(version, :zero) + :one", next+"(attribute_not_exists(version) OR version BETWEEN :zero AND :most)", values)
	// Invariant (liveness): a version that no member wrote keeps its name out of no cluster. The
	// next one is the time, since others may know any that sessions have counted to.
	if item == nil && err == nil {
		delete(values, ":one")
		item, err = c.update(ctx, partition, node, set+":now", next+"attribute_exists(version) AND NOT version BETWEEN :zero AND :most", values)
	}
	if item == nil && err == nil {
		return fmt.Errorf("%w: %q was silent for longer than %v, or its record has a heartbeat of %s or later: after a clock was set back, wait until it has caught up", cluster.ErrDropped, m.Name, b.Timeout, protocol.Stamp(b.At))
	}
	return err
}

// nodeOf returns the member that an item of <pool>#node records, and whether it
// is valid.
func nodeOf(clusterName string, item attributes) (cluster.Member, bool) {
	m := cluster.Member{
		Cluster: clusterName, Name: text(item["member_name"]), NodeID: cluster.NoNodeID, SessionID: text(item["session_id"]), Version: number(item["version"]),
		Heartbeat: time.UnixMilli(number(item["heartbeat_at"])).UTC(),
	}
	if said, ok := item["metadata"].(*types.AttributeValueMemberM); ok && len(said.Value) > 0 {
		m.Metadata = map[string]string{}
		for name, value := range said.Value {
			m.Metadata[name] = text(value)
		}
	}
	return m, m.SessionID != "" && m.Validate() == nil
}

// ahead is a record whose heartbeat is far ahead of this process's clock.
type ahead struct {
	session   string
	heartbeat int64
	since     time.Time // when this process first saw this heartbeat
	changes   bool      // whether this process has seen an earlier one
}

// look returns what this process knows of a record that is far ahead.
//
// Invariant: either the clock of its writer is wrong, or this process's clock. So the time in the
// record does not tell whether its writer lives, but a change does.
func (c *Coordinator) look(clusterName string, item attributes, now time.Time) ahead {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ahead[clusterName] == nil {
		c.ahead[clusterName] = map[int64]ahead{}
	}
	node, session, heartbeat := number(item["node_id"]), text(item["session_id"]), number(item["heartbeat_at"])
	a, known := c.ahead[clusterName][node]
	if !known || a.session != session || a.heartbeat != heartbeat {
		a = ahead{session, heartbeat, now, known}
		c.ahead[clusterName][node] = a
	}
	return a
}

// nodes reads the members without a lease.
//
// Invariant (liveness): a record that is far ahead and does not change is no member, because it may
// be of one that has ended, and would lead for as long as its time is ahead.
//
// Invariant: a member whose clock was set back by at most MaxClockBack goes on with one time, so
// others count it even if their clocks are slower than its own.
func (c *Coordinator) nodes(ctx context.Context, clusterName string, now time.Time, timeout time.Duration) (members []cluster.Member, err error) {
	oldest, newest := now.Add(-timeout), now.Add(cluster.MaxClockBack+timeout)
	for item, err := range c.query(ctx, clusterName+"#node") {
		if err != nil {
			return nil, err
		}
		m, ok := nodeOf(clusterName, item)
		if !ok || m.Heartbeat.Before(oldest) {
			continue
		}
		if m.Heartbeat.After(newest) {
			if a := c.look(clusterName, item, now); !a.changes || now.Sub(a.since) > timeout {
				continue
			}
		}
		members = append(members, m)
	}
	return members, nil
}

// Expire implements [cluster.Coordinator]. It expires members without a lease; the reaper
// expires leases. The items stay in the table, with their versions.
//
// Invariant (liveness): if this process's clock is slow, it forgets no live member. So a record
// far ahead is forgotten only if it does not change for longer than any live member's does.
func (c *Coordinator) Expire(ctx context.Context, clusterName string, age time.Duration) error {
	now := time.Now()
	oldest, newest := now.Add(-age), now.Add(cluster.MaxClockBack)
	left := map[int64]ahead{}
	for item, err := range c.query(ctx, clusterName+"#node") {
		if err != nil {
			return err
		}
		node, session, last := number(item["node_id"]), text(item["session_id"]), time.UnixMilli(number(item["heartbeat_at"]))
		far := last.After(newest)
		if session == "" || !far && !last.Before(oldest) {
			continue
		}
		if far {
			if a := c.look(clusterName, item, now); now.Sub(a.since) < 2*cluster.MaxClockBack {
				left[node] = a
				continue
			}
		}
		values := attributes{":session": str(session)}
		unchanged := still(item, "heartbeat_at", values)
		if _, err := c.update(ctx, clusterName+"#node", node, "REMOVE session_id, metadata", "session_id = :session AND "+unchanged, values); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.ahead[clusterName] = left
	c.mu.Unlock()
	return c.forgetKnown(ctx, clusterName, oldest)
}
