package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Table is the [Coordinator] on the table of the leases. The item of a member with a
// lease is the lease: the renewal was the heartbeat, and a heartbeat here only reads. The
// member with the oldest session reads all items and keeps a digest; the others read the
// digest, and read all items themselves if it is older than the time-out.
type Table struct {
	client lease.Client
	table  string
	store  *lease.DynamoDB

	mu      sync.Mutex
	digests map[string]*digest // by the reading session
}

var _ Coordinator = (*Table)(nil)

// NewTable returns the backend on the table of the leases. A cluster's name is a
// pool's.
func NewTable(client lease.Client, table string) *Table {
	return &Table{client: client, table: table, store: lease.NewDynamoDB(client, table), digests: map[string]*digest{}}
}

// Heartbeat implements [Coordinator]. If the digest cannot be written, the
// heartbeat does not fail: it has a Warning.
func (t *Table) Heartbeat(ctx context.Context, b Beat) (Snapshot, error) {
	if b.Self.NodeID == NoNodeID {
		if err := t.beat(ctx, b); err != nil {
			return Snapshot{}, err
		}
	}
	d := t.digestOf(b.Self)
	if !b.Oldest {
		snap, ok, err := d.read(ctx, b)
		if ok || err != nil {
			return snap, err
		}
	}
	now := time.Now()
	members, err := t.all(ctx, b.Self.Cluster, now, b.Timeout)
	if err != nil || !b.Oldest {
		if err == nil {
			d.seed(members)
		}
		return Snapshot{Members: members}, err
	}
	return Snapshot{Members: members, Warning: d.write(ctx, b, members, now)}, nil
}

// digestOf returns a member's copy of the digest. A process has few members.
func (t *Table) digestOf(m Member) *digest {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := m.Cluster + "#" + m.Key()
	if t.digests[key] == nil {
		t.digests[key] = &digest{Table: t, partition: m.Cluster + "#digest", copies: 1}
	}
	return t.digests[key]
}

// all reads every member, strongly consistent.
func (t *Table) all(ctx context.Context, cluster string, now time.Time, timeout time.Duration) ([]Member, error) {
	oldest := now.Add(-timeout)
	members, err := t.nodes(ctx, cluster, oldest)
	if err != nil {
		return nil, err
	}
	pool, err := t.store.PoolItem(ctx, cluster)
	if errors.Is(err, lease.ErrPoolNotSeeded) {
		return members, nil // a cluster without leases
	}
	if err != nil {
		return nil, err
	}
	// Node IDs are leased only in the open groups.
	groups, err := t.groups(ctx, cluster, max(pool.OpenGroups, pool.ExcludeBelow/protocol.GroupSize+1), oldest)
	if err != nil {
		return nil, err
	}
	return slices.Concat(append(groups, members)...), nil
}

// readers is the number of groups that are read concurrently: a heartbeat has a
// third of the time-out for 256 of them.
const readers = 8

// groups reads the members with leases, by group.
func (t *Table) groups(ctx context.Context, cluster string, open int, oldest time.Time) ([][]Member, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([][]Member, open)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(readers, open) {
		wg.Go(func() {
			for group := int(next.Add(1)) - 1; group < open && ctx.Err() == nil; group = int(next.Add(1)) - 1 {
				g, err := t.store.Group(ctx, cluster, group)
				if err != nil {
					cancel(err) // the first one counts
					return
				}
				for _, l := range g.Leases {
					if m, ok := MemberOf(l); ok && !m.Heartbeat.Before(oldest) {
						all[group] = append(all[group], m)
					}
				}
			}
		})
	}
	wg.Wait()
	// A read without one of the groups is invalid: its members would seem dead.
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return all, nil
}

// MemberOf returns the member that holds a lease, if the holder takes part in a
// cluster. The caller decides whether its heartbeat is recent.
func MemberOf(l lease.Lease) (Member, bool) {
	m := Member{
		Cluster: l.Pool, Name: l.Metadata[metaNode], NodeID: l.NodeID, SessionID: l.Metadata[metaSession], Version: l.Version,
		Heartbeat: l.ExpiresAt.Add(-l.TTL), Metadata: said(l.Metadata),
	}
	return m, l.Holder != "" && m.SessionID != "" && m.check() == nil
}

// said returns the metadata of a lease without the names that a node adds.
func said(metadata map[string]string) map[string]string {
	var rest map[string]string
	for name, value := range metadata {
		if name != metaNode && name != metaSession {
			if rest == nil {
				rest = map[string]string{}
			}
			rest[name] = value
		}
	}
	return rest
}

// member reads one member's own item, strongly consistent.
func (t *Table) member(ctx context.Context, m Member) (Member, bool, error) {
	if m.NodeID == NoNodeID {
		item, err := t.get(ctx, m.Cluster+"#node", sortKey(m), true)
		if err != nil {
			return Member{}, false, err
		}
		now, ok := nodeOf(m.Cluster, item)
		return now, ok, nil
	}
	l, err := t.store.Get(ctx, m.Cluster, m.NodeID)
	if err != nil || l == nil {
		return Member{}, false, err
	}
	now, ok := MemberOf(*l)
	return now, ok, nil
}

// mostNodes bounds the items of one partition: members without a lease, or known
// versions.
const mostNodes = 20_000

type attributes = map[string]types.AttributeValue

// query reads a partition, page by page, strongly consistent.
func (t *Table) query(ctx context.Context, partition string) func(func(attributes, error) bool) {
	return func(yield func(attributes, error) bool) {
		var from attributes
		pages := protocol.Pages{Most: mostNodes}
		for {
			out, err := t.client.Query(ctx, &dynamodb.QueryInput{
				TableName: &t.table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from,
				KeyConditionExpression: aws.String("pool_group = :partition"), ExpressionAttributeValues: attributes{":partition": str(partition)},
			}, protocol.Genuine)
			if err == nil {
				err = pages.Next(out)
			}
			if err != nil {
				yield(nil, fmt.Errorf("cluster: Query of %s in table %q: %w", partition, t.table, err))
				return
			}
			for i, item := range out.Items {
				out.Items[i] = nil // its reader keeps what it needs
				if protocol.Trimmed(item) != nil {
					continue // not written by a node of ours
				}
				if !yield(item, nil) {
					return
				}
			}
			if from = out.LastEvaluatedKey; len(from) == 0 {
				return
			}
		}
	}
}

// get reads one item, empty if there is none. If the item is too large, parts are
// missing: its readers check the parts that they use.
func (t *Table) get(ctx context.Context, partition string, node int64, strong bool) (attributes, error) {
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.table, Key: key(partition, node), ConsistentRead: aws.Bool(strong)}, protocol.Genuine)
	if err != nil {
		return nil, fmt.Errorf("cluster: GetItem of %s %d in table %q: %w", partition, node, t.table, err)
	}
	return out.Item, nil
}

// update does one UpdateItem and returns the item after it, nil if the condition
// refused.
func (t *Table) update(ctx context.Context, partition string, node int64, set, onlyIf string, values attributes) (attributes, error) {
	in := &dynamodb.UpdateItemInput{
		TableName: &t.table, Key: key(partition, node), UpdateExpression: &set, ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
	}
	if onlyIf != "" {
		in.ConditionExpression = &onlyIf
	}
	out, err := t.client.UpdateItem(ctx, in, protocol.Genuine)
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: UpdateItem of %s %d in table %q: %w", partition, node, t.table, err)
	}
	if len(out.Attributes) == 0 { // it would be mistaken for a refusal
		return nil, fmt.Errorf("cluster: UpdateItem of %s %d in table %q: %w: it holds no item", partition, node, t.table, protocol.ErrNotDynamoDB)
	}
	return out.Attributes, nil
}

func key(partition string, node int64) attributes {
	return attributes{"pool_group": str(partition), "node_id": num(node)}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// text returns a string attribute, empty if it is not one.
func text(av types.AttributeValue) string {
	if s, ok := av.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// number returns a number attribute, 0 if it is not one.
func number(av types.AttributeValue) int64 {
	if n, ok := av.(*types.AttributeValueMemberN); ok {
		v, _ := strconv.ParseInt(n.Value, 10, 64)
		return v
	}
	return 0
}
