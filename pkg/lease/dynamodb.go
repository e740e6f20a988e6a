package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Client is what the store needs of a *[dynamodb.Client].
type Client interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
}

// DynamoDB is the [Store] that counts. It is safe for concurrent use and has no
// state of its own.
type DynamoDB struct {
	client Client
	table  string
}

// NewDynamoDB keeps leases in a table, with the caller's own client. Every call
// is one attempt, whatever retries the client has: a retry that nobody sees could
// outlive the lease. [Open] makes a client from the environment.
func NewDynamoDB(client Client, table string) *DynamoDB {
	return &DynamoDB{client: client, table: table}
}

// Table is the client and the table that the store was made with, for packages
// that keep items of their own beside the leases.
func (d *DynamoDB) Table() (Client, string) { return d.client, d.table }

// once lets a call be one attempt.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// update is an UpdateItem in DynamoDB's words.
type update struct {
	set    string
	onlyIf string
	values attributes
}

// The writes, side by side. Right-hand sides see the item as it was before the
// write. A comparison with a missing attribute is false, and every condition
// names the attributes that must exist: a corrupt item is refused, not healed.

// A number is seeded once, and only where there is no item at all: seeding it
// again would forget which milliseconds of it were stamped.
func (w Seed) update() update {
	u := update{
		set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{":zero": num(0), ":floor": millis(w.Floor)},
	}
	if w.Layout > 0 {
		u.set += ", layout = :layout"
		u.values[":layout"] = num(w.Layout)
	}
	return u
}

// The new span begins where the stored one ended, in the same atomic write: so
// spans of one number never overlap, whatever any clock says (S1). The guards on
// expires_at and reserved_until only keep believers apart (S2).
func (w Claim) update() update {
	return update{
		set: "SET holder = :session, task = :task, version = version + :one, renewal = :zero, lease_ms = :ttl, " +
			"expires_at = :expires_at, not_before = reserved_until, reserved_until = :reserved_until, metadata = :metadata",
		onlyIf: "version >= :zero AND attribute_not_exists(retired) " +
			"AND (attribute_not_exists(layout) OR layout <= :layout) " +
			"AND (attribute_not_exists(holder) OR expires_at < :expired_before) " +
			"AND reserved_until BETWEEN :zero AND :reserved_by",
		values: attributes{
			":session": str(w.Session), ":task": str(w.Task), ":one": num(1), ":zero": num(0), ":ttl": num(w.TTL.Milliseconds()),
			":expires_at": millis(w.ExpiresAt), ":reserved_until": millis(w.ReservedUntil), ":metadata": stringMap(w.Metadata),
			":layout": num(w.Layout), ":expired_before": millis(w.expiredBefore()), ":reserved_by": millis(w.reservedBy()),
		},
	}
}

// Only the session and version that hold the number renew it, and renewals land
// in the order in which they were sent, or not at all: a late one must not lower
// what a newer one reserved.
func (w Renew) update() update {
	u := update{
		set: "SET expires_at = :expires_at, reserved_until = :reserved_until, renewal = :renewal",
		onlyIf: "holder = :session AND version = :version AND renewal < :renewal " +
			"AND (attribute_not_exists(layout) OR layout <= :layout)",
		values: attributes{
			":session": str(w.Session), ":version": num(w.Version), ":renewal": num(w.Renewal),
			":expires_at": millis(w.ExpiresAt), ":reserved_until": millis(w.ReservedUntil), ":layout": num(w.Layout),
		},
	}
	if w.Metadata != nil { // the same one write, not another
		u.set += ", metadata = :metadata"
		u.values[":metadata"] = stringMap(w.Metadata)
	}
	return u
}

// What was reserved and not stamped is handed back, by its holder alone and
// after the fence: a successor begins right behind the last stamp.
func (w Release) update() update {
	return update{
		set:    "SET reserved_until = :reserved_until REMOVE holder, expires_at",
		onlyIf: "holder = :session AND version = :version",
		values: attributes{":session": str(w.Session), ":version": num(w.Version), ":reserved_until": millis(w.ReservedUntil)},
	}
}

// A session that never learned of its claim stamped nothing.
func (w Abandon) update() update {
	return update{
		set:    "SET reserved_until = not_before REMOVE holder, expires_at",
		onlyIf: "holder = :session",
		values: attributes{":session": str(w.Session)},
	}
}

// Reaping is pinned on what was seen: a holder that comes back is left alone.
// version and reserved_until stay.
func (w Reap) update() update {
	return update{
		set:    "REMOVE holder, expires_at",
		onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",
		values: attributes{":holder": str(w.Holder), ":version": num(w.Version), ":renewal": num(w.Renewal)},
	}
}

// An operator frees the lease that they saw, not the next one.
func (w ForceRelease) update() update {
	return update{
		set:    "REMOVE holder, expires_at",
		onlyIf: "attribute_exists(holder) AND version = :version",
		values: attributes{":version": num(w.Version)},
	}
}

// Retiring makes no item: one made here would be a number seeded at 0.
func (w Retire) update() update {
	u := update{set: "REMOVE retired", onlyIf: "attribute_exists(version)"}
	if w.Retired {
		u.set, u.values = "SET retired = :true", attributes{":true": boolean(true)}
	}
	return u
}

// Reserved milliseconds only ever grow here.
func (w Raise) update() update {
	return update{
		set:    "SET reserved_until = :to REMOVE holder, expires_at",
		onlyIf: "attribute_exists(version) AND reserved_until < :to",
		values: attributes{":to": millis(w.To)},
	}
}

func (w CreatePool) update() update {
	u := update{
		set:    "SET item_format = :format, pool_size = :size, open_groups = :open_groups, reserved_low = :reserved_low, created_at = :at",
		onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{":format": num(ItemFormat), ":size": num(w.Size), ":open_groups": num(w.OpenGroups), ":reserved_low": num(w.ReservedLow), ":at": millis(w.At)},
	}
	if w.NodeBits > 0 {
		u.set += ", layouts = :layouts, widen_try = :zero, widen_from = :zero, widen_bits = :bits, widen_state = :done, widen_numbers = :numbers"
		maps.Copy(u.values, attributes{
			":layouts": layouts(snowflake.Era{From: time.UnixMilli(0), NodeBits: w.NodeBits}), ":zero": num(0), ":bits": num(w.NodeBits),
			":done": str(string(WidenDone)), ":numbers": num(w.Numbers),
		})
	}
	return u
}

func (w OpenGroups) update() update {
	return update{
		set:    "SET open_groups = :to",
		onlyIf: "item_format = :format AND open_groups = :from",
		values: attributes{":format": num(ItemFormat), ":from": num(w.From), ":to": num(w.To)},
	}
}

func (w ResizePool) update() update {
	return update{
		set:    "SET pool_size = :to, resized_at = :at",
		onlyIf: "item_format = :format AND pool_size = :from",
		values: attributes{":format": num(ItemFormat), ":from": num(w.From), ":to": num(w.To), ":at": millis(w.At)},
	}
}

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
		return Result{}, &CorruptError{k.Pool, k.NodeID, err}
	case err != nil:
		return Result{}, explain(err, "UpdateItem", d.table)
	case len(av) == 0: // refused, and the answer has no item: DynamoDB Local may leave it out
		l, err := d.Get(ctx, k.Pool, k.NodeID)
		return Result{Lease: l}, err
	}
	l, err := decodeLease(k, av)
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

// send does one conditional UpdateItem with one attempt, and gives the item as
// it is after it, or as it was when it refused.
func (d *DynamoDB) send(ctx context.Context, key attributes, u update) (attributes, bool, error) {
	out, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: key,
		UpdateExpression: &u.set, ConditionExpression: &u.onlyIf, ExpressionAttributeValues: u.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, once)
	if err == nil {
		return out.Attributes, true, nil
	}
	if item, ok := refusal(err); ok {
		return item, false, nil
	}
	return nil, false, err
}

// Get implements [Store].
func (d *DynamoDB) Get(ctx context.Context, pool string, nodeID int) (*Lease, error) {
	k := Key{pool, nodeID}
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &d.table, Key: itemKey(k), ConsistentRead: aws.Bool(true)}, once)
	if err != nil {
		return nil, explain(err, "GetItem", d.table)
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return decodeLease(k, out.Item)
}

// PoolItem implements [Store].
func (d *DynamoDB) PoolItem(ctx context.Context, pool string) (PoolItem, error) {
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &d.table, Key: poolKey(pool), ConsistentRead: aws.Bool(true)}, once)
	if err != nil {
		return PoolItem{}, explain(err, "GetItem", d.table)
	}
	// Also where there is no item: whoever seeds wants to know how their clock is.
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

// Group implements [Store]. One group is one Query of one page: 256 items of at
// most 1 KB.
func (d *DynamoDB) Group(ctx context.Context, pool string, group int) (Group, error) {
	return d.query(ctx, pool, group, true)
}

// eventualGroup is Group at half the price, for who can do with an answer that is
// a second old.
func (d *DynamoDB) eventualGroup(ctx context.Context, pool string, group int) (Group, error) {
	return d.query(ctx, pool, group, false)
}

func (d *DynamoDB) query(ctx context.Context, pool string, group int, consistent bool) (Group, error) {
	var g Group
	var from attributes
	for {
		out, err := d.client.Query(ctx, &dynamodb.QueryInput{
			TableName: &d.table, ConsistentRead: &consistent, ExclusiveStartKey: from,
			KeyConditionExpression:    aws.String(partitionKey + " = :group"),
			ExpressionAttributeValues: attributes{":group": str(groupKey(pool, group))},
		}, once)
		if err != nil {
			return Group{}, explain(err, "Query", d.table)
		}
		for _, av := range out.Items {
			n, _ := strconv.Atoi(numberOf(av[sortKey]))
			l, err := decodeLease(Key{pool, n}, av)
			var corrupt *CorruptError
			switch {
			case errors.As(err, &corrupt):
				g.Corrupt = append(g.Corrupt, corrupt)
			case n/GroupSize != group:
				g.Corrupt = append(g.Corrupt, &CorruptError{pool, n, fmt.Errorf("it stands in group %d", group)})
			default:
				g.Leases = append(g.Leases, *l)
			}
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return g, nil
		}
	}
}

// Check implements [Store] with one DescribeTable. Where that call is denied it
// returns errUnchecked, which a start reports as a warning.
func (d *DynamoDB) Check(ctx context.Context) error {
	out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table}, once)
	if denied(err) {
		return fmt.Errorf("%w: DescribeTable on %q is not permitted, so its keys and replication were not looked at", errUnchecked, d.table)
	}
	if err != nil {
		return explain(err, "DescribeTable", d.table)
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
		return fmt.Errorf("%w: table %q has the keys %q, needed are %q: make a table of its own for Nodelease", ErrTable, d.table, schema, want)
	}
	if len(out.Table.Replicas) > 0 && out.Table.MultiRegionConsistency != types.MultiRegionConsistencyStrong {
		return fmt.Errorf("%w: table %q is a global table with eventual consistency (MREC), where two Regions can lease one number at the same time: use a table in one Region, or multi-Region strong consistency (MRSC)", ErrUnsafeReplication, d.table)
	}
	return nil
}

// errUnchecked is what Check returns when it was not permitted to look.
var errUnchecked = errors.New("lease: table not checked")

func num[T int | int64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
}

func millis(t time.Time) types.AttributeValue { return num(t.UnixMilli()) }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func stringMap(m map[string]string) types.AttributeValue {
	av := attributes{}
	for k, v := range m {
		av[k] = str(v)
	}
	return &types.AttributeValueMemberM{Value: av}
}

// layouts is a list of one entry of the pool's history.
func layouts(e snowflake.Era) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: []types.AttributeValue{
		&types.AttributeValueMemberM{Value: attributes{"from": millis(e.From), "node_bits": num(e.NodeBits)}},
	}}
}

func numberOf(av types.AttributeValue) string {
	if n, ok := av.(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return ""
}
