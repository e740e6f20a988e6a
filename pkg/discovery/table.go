package discovery

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// table is the [Store] that keeps entries in the lease table. Whatever the client, an
// answer that is not from DynamoDB, such as `{}` from a proxy, is an error, and is not
// taken for an empty list or a successful write.
type table struct {
	entries.Sealed
	client lease.Client
	name   string
	store  lease.Store
}

var _ Store = (*table)(nil)

// NewTable returns a store that keeps entries in the lease table with the given name. It
// needs no more permissions than an agent: GetItem, Query and UpdateItem.
func NewTable(client lease.Client, name string) Store {
	return &table{client: client, name: name, store: lease.NewDynamoDB(client, name)}
}

func (t *table) Leases() lease.Store { return t.store }

const (
	// mostRecords is how many records a partition can contain: an entry for each node ID
	// of the largest pool, plus the findings of readers.
	mostRecords = protocol.MaxPoolSize + 1
	// maxPlace is the length of "ep#", the longest name, "#" and the longest key.
	maxPlace = 3 + 64 + 1 + 128
)

type attributes = map[string]types.AttributeValue

func (t *table) Query(ctx context.Context, partition string) (all []record, err error) {
	var from attributes
	pages := protocol.Pages{Most: mostRecords}
	for {
		out, err := protocol.Checked(ctx, t.client).Query(ctx, &dynamodb.QueryInput{
			TableName: &t.name, ExclusiveStartKey: from,
			KeyConditionExpression: aws.String("pool_group = :partition"), ExpressionAttributeValues: attributes{":partition": str(partition)},
		}, protocol.Genuine)
		if err == nil {
			err = pages.Next(out)
		}
		if err != nil {
			return nil, t.failed("Query", partition, err)
		}
		for _, item := range out.Items {
			r, err := decode(item)
			if err != nil { // a corrupt entry is not valid; its reader logs it
				r = record{NodeID: nodeOf(item), Corrupt: err}
			}
			all = append(all, r)
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return all, nil
		}
	}
}

func (t *table) Get(ctx context.Context, partition string, nodeID int) (record, error) {
	out, err := protocol.Checked(ctx, t.client).GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: key(partition, nodeID), ConsistentRead: aws.Bool(true)}, protocol.Genuine)
	if err != nil {
		return record{}, t.failed("GetItem", partition, err)
	}
	r, err := decode(out.Item)
	if err != nil {
		r = record{NodeID: nodeID, Corrupt: err} // the next write replaces it, unless it seems to be newer
	}
	return r, nil
}

func (t *table) Write(ctx context.Context, partition string, r record) (record, bool, error) {
	values, err := attributevalue.MarshalMap(r)
	if err != nil {
		return record{}, false, fmt.Errorf("discovery: %s: %w", partition, err)
	}
	set, remove := "SET version = :version, revision = :revision", ""
	given := attributes{":version": values["version"], ":revision": values["revision"]}
	for _, name := range []string{"holder", "addresses", "places", "leases", "read_at"} {
		if values[name] == nil {
			remove += ", " + name
			continue
		}
		set += ", " + name + " = :" + name
		given[":"+name] = values[name]
	}
	if remove != "" {
		set += " REMOVE" + remove[1:]
	}
	_, err = protocol.Checked(ctx, t.client).UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.name, Key: key(partition, r.NodeID), UpdateExpression: &set, ExpressionAttributeValues: given,
		// A comparison with an attribute that is missing or has another type is false, so
		// the next write repairs a corrupt item. That is safe here, because no uniqueness
		// depends on an entry, as it does on a lease.
		ConditionExpression:                 aws.String("NOT (version > :version OR (version = :version AND revision >= :revision))"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, protocol.Genuine)
	var refused *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return r, true, nil
	case !errors.As(err, &refused):
		return record{}, false, t.failed("UpdateItem", partition, err)
	case len(refused.Item) == 0: // DynamoDB Local may leave out the item
		now, err := t.Get(ctx, partition, r.NodeID)
		return now, false, err
	}
	now, err := decode(refused.Item)
	if err != nil {
		now = record{NodeID: r.NodeID, Corrupt: err}
	}
	return now, false, nil
}

func (t *table) failed(call, partition string, err error) error {
	return fmt.Errorf("discovery: %s of %s in table %q: %w", call, partition, t.name, err)
}

func decode(item attributes) (r record, err error) {
	if err := errors.Join(protocol.Trimmed(item), attributevalue.UnmarshalMap(item, &r)); err != nil {
		return record{}, fmt.Errorf("discovery: corrupt item: %w", err)
	}
	if len(r.Places) > maxOffers || len(r.Leases) > maxSharedLeases {
		return record{}, fmt.Errorf("discovery: corrupt item: it has %d places and %d leases, at most %d and %d", len(r.Places), len(r.Leases), maxOffers, maxSharedLeases)
	}
	// Invariant (liveness): nobody continues to count from a number that only a write by hand can
	// reach. The next number may be out of bounds, and then the holder of the node ID could
	// register nowhere. Findings of a reader with such a number are never replaced.
	if r.NodeID >= 0 && max(r.Version, r.Revision) > maxShared {
		return record{}, fmt.Errorf("discovery: corrupt item: it has version %d and revision %d, at most %d", r.Version, r.Revision, int64(maxShared))
	}
	for _, text := range r.Places {
		if len(text) > maxPlace {
			return record{}, fmt.Errorf("discovery: corrupt item: a place has %d bytes, at most %d", len(text), maxPlace)
		}
	}
	return r, nil
}

// nodeOf returns the sort key of an item whose other attributes cannot be decoded.
func nodeOf(item attributes) int {
	var only struct {
		NodeID int `dynamodbav:"node_id"`
	}
	_ = attributevalue.UnmarshalMap(attributes{"node_id": item["node_id"]}, &only) // keys are numbers
	return only.NodeID
}

func key(partition string, nodeID int) attributes {
	return attributes{"pool_group": str(partition), "node_id": &types.AttributeValueMemberN{Value: strconv.Itoa(nodeID)}}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
