package protocol

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Client has the methods of a *[dynamodb.Client] that the store needs.
type Client interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// DynamoDB is the production [Store]. It is safe for concurrent use and has no
// state of its own.
type DynamoDB struct {
	client Client
	table  string
}

// NewDynamoDB returns a store that keeps leases in a table and uses the caller's client.
// Every call is one attempt, whatever the client's own retry settings, because a hidden
// retry could outlive the lease. lease.Open creates a client from the environment.
func NewDynamoDB(client Client, table string) *DynamoDB {
	return &DynamoDB{client: client, table: table}
}

// Table returns the client and the table of the store, for packages that keep other items
// in the same table.
func (d *DynamoDB) Table() (Client, string) { return d.client, d.table }

// Write implements [Store].
func (d *DynamoDB) Write(ctx context.Context, w Write) (Result, error) {
	u, ok := w.(interface{ update() update })
	if !ok {
		return Result{}, fmt.Errorf("lease: %T is not a write of this package", w)
	}
	k := w.Item()
	av, applied, err := d.send(ctx, itemKey(k), u.update())
	switch {
	case err != nil && corruptItem(err):
		return Result{}, &CorruptError{Pool: k.Pool, NodeID: k.NodeID, Err: err}
	case err != nil:
		return Result{}, explain(err, "UpdateItem", d.table)
	case len(av) == 0: // refused, and the answer has no item: DynamoDB Local may leave it out
		l, err := d.Get(ctx, k.Pool, k.NodeID)
		return Result{Lease: l}, err
	}
	l, err := decodeLease(k, av)
	if err == nil && applied && !kept(w, l) {
		return Result{}, explain(notDynamoDB("it kept something else than was sent"), "UpdateItem", d.table)
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		corrupt.Written = applied
	}
	return Result{Applied: applied, Lease: l}, err
}

// WritePool implements [Store].
func (d *DynamoDB) WritePool(ctx context.Context, w PoolWrite) (PoolResult, error) {
	u, ok := w.(interface{ update() update })
	if !ok {
		return PoolResult{}, fmt.Errorf("lease: %T is not a write of this package", w)
	}
	av, applied, err := d.send(ctx, poolKey(w.PoolName()), u.update())
	switch {
	case err != nil:
		return PoolResult{}, explain(err, "UpdateItem", d.table)
	case len(av) == 0:
		p, err := d.PoolItem(ctx, w.PoolName())
		if errors.Is(err, ErrPoolNotSeeded) {
			return PoolResult{}, nil
		}
		return PoolResult{Pool: &p}, err
	}
	p, err := decodePool(w.PoolName(), av)
	return PoolResult{Applied: applied, Pool: p}, err
}

// send does one conditional UpdateItem with one attempt. It returns the item after the
// write, or, if the condition was not met, the item as it is.
func (d *DynamoDB) send(ctx context.Context, key attributes, u update) (attributes, bool, error) {
	out, err := Checked(ctx, d.client).UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: key,
		UpdateExpression: &u.set, ConditionExpression: &u.onlyIf, ExpressionAttributeValues: u.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, once)
	item, refused := refusal(err)
	switch {
	case err == nil && !hasKey(out.Attributes, key), refused && len(item) > 0 && !hasKey(item, key):
		return nil, false, notDynamoDB("the item in it is another one, or none")
	case err == nil:
		return out.Attributes, true, nil
	case refused:
		return item, false, nil
	}
	return nil, false, err
}

// Get implements [Store].
func (d *DynamoDB) Get(ctx context.Context, pool string, nodeID int) (*Lease, error) {
	k := Key{pool, nodeID}
	out, err := d.read(ctx, itemKey(k), true)
	if err != nil || len(out.Item) == 0 {
		return nil, err
	}
	return decodeLease(k, out.Item)
}

// read reads one item. An answer without an item means that there is none, because only
// genuine answers are accepted: see [Genuine].
func (d *DynamoDB) read(ctx context.Context, key attributes, consistent bool) (*dynamodb.GetItemOutput, error) {
	out, err := Checked(ctx, d.client).GetItem(ctx, &dynamodb.GetItemInput{TableName: &d.table, Key: key, ConsistentRead: &consistent}, once)
	if err == nil && len(out.Item) > 0 && !hasKey(out.Item, key) {
		err = notDynamoDB("the item in it is another one")
	}
	if err != nil {
		return nil, explain(err, "GetItem", d.table)
	}
	return out, nil
}

// partition calls each for every item of a partition, strongly consistent. It returns an
// error if there are more than most items.
func (d *DynamoDB) partition(ctx context.Context, key string, most int, each func(attributes)) error {
	pages := Pages{Most: most}
	for from := attributes(nil); ; {
		out, err := Checked(ctx, d.client).Query(ctx, &dynamodb.QueryInput{
			TableName: &d.table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from,
			KeyConditionExpression:    aws.String(partitionKey + " = :group"),
			ExpressionAttributeValues: attributes{":group": str(key)},
		}, once)
		if err == nil {
			err = pages.Next(out)
		}
		if err != nil {
			return explain(err, "Query", d.table)
		}
		for _, av := range out.Items {
			each(av)
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return nil
		}
	}
}

// PoolItem implements [Store].
func (d *DynamoDB) PoolItem(ctx context.Context, pool string) (PoolItem, error) {
	return d.poolItem(ctx, pool, true)
}

// EventualPoolItem is PoolItem at half the price, for callers that accept an answer that
// may be a second old.
func (d *DynamoDB) EventualPoolItem(ctx context.Context, pool string) (PoolItem, error) {
	return d.poolItem(ctx, pool, false)
}

func (d *DynamoDB) poolItem(ctx context.Context, pool string, consistent bool) (PoolItem, error) {
	out, err := d.read(ctx, poolKey(pool), consistent)
	if err != nil {
		return PoolItem{}, err
	}
	// The time is returned even if there is no item: a process that seeds the pool needs
	// the time to check its own clock.
	at, _ := middleware.GetServerTime(out.ResultMetadata)
	if len(out.Item) == 0 {
		return PoolItem{ServerTime: at}, fmt.Errorf("%w: table %q has no pool %q: seed it (nodelease seed --pool %s --size 1024), or check NODELEASE_POOL", ErrPoolNotSeeded, d.table, pool, pool)
	}
	p, err := decodePool(pool, out.Item)
	if err != nil {
		return PoolItem{}, err
	}
	p.ServerTime = at
	return *p, nil
}

// Group implements [Store]. Reading a group takes one Query of one page, with 256 items
// of at most 1 KB.
func (d *DynamoDB) Group(ctx context.Context, pool string, group int) (Group, error) {
	return d.query(ctx, pool, group, Part{}, true)
}

// EventualGroup is Group at half the price, for callers that accept an answer that may be
// a second old; see [EventualStore].
func (d *DynamoDB) EventualGroup(ctx context.Context, pool string, group int) (Group, error) {
	return d.query(ctx, pool, group, Part{}, false)
}

// EventualPart implements [PartStore].
func (d *DynamoDB) EventualPart(ctx context.Context, pool string, group int, part Part) (Group, error) {
	return d.query(ctx, pool, group, part, false)
}

func (d *DynamoDB) query(ctx context.Context, pool string, group int, part Part, consistent bool) (Group, error) {
	var g Group
	first, end := part.Bounds(group)
	var limit *int32
	if !part.Whole() {
		limit = aws.Int32(int32(part.Size)) //nolint:gosec // at most GroupSize
	}
	// The query begins at the first node ID and ends after the last, so foreign items in
	// the partition cost a reader at most the rest of a page.
	from, pages := rawKey(groupKey(pool, group), first-1), Pages{Most: 2 * GroupSize}
	for last := first - 1; ; {
		out, err := Checked(ctx, d.client).Query(ctx, &dynamodb.QueryInput{
			TableName: &d.table, ConsistentRead: &consistent, ExclusiveStartKey: from, Limit: limit,
			KeyConditionExpression:    aws.String(partitionKey + " = :group"),
			ExpressionAttributeValues: attributes{":group": str(groupKey(pool, group))},
		}, once)
		if err == nil && out.Items == nil { // DynamoDB sends at least an empty list
			err = notDynamoDB("there is no list of items in it")
		}
		if err != nil {
			return Group{}, explain(err, "Query", d.table)
		}
		for i, av := range out.Items {
			n := nodeOf(av)
			if last = n; !part.Whole() && n >= end { // if node IDs are missing, the page extends into the next part
				break
			}
			l, err := decodeLease(Key{pool, n}, av)
			var corrupt *CorruptError
			if key := numberOf(av[sortKey]); errors.As(err, &corrupt) && key != strconv.Itoa(n) {
				corrupt.Err = fmt.Errorf("%w: node_id is %.40s", ErrForeignKey, key)
			}
			switch {
			case n/GroupSize != group:
				g.Corrupt = append(g.Corrupt, &CorruptError{Pool: pool, NodeID: n, Err: fmt.Errorf("%w: it is stored in group %d", ErrForeignKey, group)})
				// Invariant: a foreign key below those of this group ends nothing, since the node IDs of
				// this group follow it.
				if n >= end {
					return g, nil // the rest is not of this group either
				}
			case errors.As(err, &corrupt):
				g.Corrupt = append(g.Corrupt, corrupt)
			default:
				g.Leases = append(g.Leases, *l)
			}
			out.Items[i] = nil
		}
		if err := pages.Next(out); err != nil {
			return Group{}, explain(err, "Query", d.table)
		}
		// A page has room for all node IDs of a part. It ends before the last of them only if there
		// are foreign items among them.
		if from = out.LastEvaluatedKey; len(from) == 0 || !part.Whole() && last >= end-1 {
			return g, nil
		}
	}
}

// Check implements [Store] with one DescribeTable. If the role may not call
// DescribeTable, Check returns ErrUnchecked, which a starting agent reports as a warning.
func (d *DynamoDB) Check(ctx context.Context) error {
	_, err := d.Judge(ctx)
	return err
}

// Judge implements [Judge] with one DescribeTable. Without a complete answer there is
// no verdict.
func (d *DynamoDB) Judge(ctx context.Context) (*Verdict, error) {
	if err := d.checkRegion(); err != nil {
		return nil, err
	}
	at := time.Now()
	out, err := Checked(ctx, d.client).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table}, once)
	if denied(err) {
		return nil, fmt.Errorf("%w: DescribeTable on %q is not permitted, so its keys and replication were not looked at", ErrUnchecked, d.table)
	}
	if err == nil && (out.Table == nil || len(out.Table.KeySchema) == 0) {
		err = notDynamoDB("there is no table in it")
	}
	if err != nil {
		return nil, explain(err, "DescribeTable", d.table)
	}
	region, table := d.Place()
	v := &Verdict{Region: region, Table: table, At: at}
	if !d.complete(out.Table) {
		v = nil
	}
	keys := map[string]types.ScalarAttributeType{}
	for _, def := range out.Table.AttributeDefinitions {
		keys[aws.ToString(def.AttributeName)] = def.AttributeType
	}
	schema := ""
	for _, k := range out.Table.KeySchema {
		name := aws.ToString(k.AttributeName)
		schema += fmt.Sprintf("%s %s %s, ", name, keys[name], k.KeyType)
	}
	if want := "pool_group S HASH, node_id N RANGE, "; schema != want {
		return v, fmt.Errorf("%w: table %q has the keys %q, needed are %q: make a table of its own for Nodelease", ErrTable, d.table, schema, want)
	}
	if replicated(out.Table) && out.Table.MultiRegionConsistency != types.MultiRegionConsistencyStrong {
		return v, fmt.Errorf("%w: table %q is a global table with eventual consistency (MREC), where two Regions can lease one node ID at the same time: use a table in one Region, or multi-Region strong consistency (MRSC)", ErrUnsafeReplication, d.table)
	}
	if v != nil {
		v.Safe = true
	}
	return v, nil
}

// replicated reports whether the table has a replica in a Region other than its own. A
// global table in one Region may list itself. If the table's ARN has no Region, every
// replica is taken to be in another Region.
func replicated(t *types.TableDescription) bool {
	own := ""
	if parts := strings.Split(aws.ToString(t.TableArn), ":"); len(parts) == 6 && parts[0] == "arn" {
		own = parts[3]
	}
	for _, r := range t.Replicas {
		if own == "" || aws.ToString(r.RegionName) != own {
			return true
		}
	}
	return false
}

// ErrForeignKey is wrapped by the error of an item in a group's partition whose key is not a
// whole number, or is that of another group. It is not the item of the node ID that its
// [CorruptError] has.
var ErrForeignKey = errors.New("a foreign item")

// nodeOf returns the node ID of an item of a group.
//
// Invariant (S1): an item that somebody wrote by hand hides no other item. If its key has a
// fraction or is too large for an int, it is taken for the node ID before it, or for none of
// any group, and decodeLease finds that it is corrupt.
func nodeOf(item attributes) int {
	f, _ := strconv.ParseFloat(numberOf(item[sortKey]), 64)
	return int(max(-1, min(f, 1<<30)))
}

func numberOf(av types.AttributeValue) string {
	if n, ok := av.(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return ""
}
