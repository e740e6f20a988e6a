package dynamocoordinator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
)

// mostNodes bounds the number of items of one partition that are in use: of members without
// a lease, or of known versions. mostNames also counts the items that Expire leaves: one for
// each name ever used, without what the reader keeps.
const (
	mostNodes = 20_000
	mostNames = 1_000_000
)

// forgotten reports whether Expire has forgotten the member of an item of <pool>#node or
// <pool>#known.
func forgotten(item attributes) bool {
	return item["version"] != nil && item["session_id"] == nil && item["known"] == nil
}

type attributes = map[string]types.AttributeValue

// query yields the items of a partition. It reads them page by page, with strongly
// consistent reads.
func (c *Coordinator) query(ctx context.Context, partition string) func(func(attributes, error) bool) {
	return func(yield func(attributes, error) bool) {
		var from attributes
		pages, used := protocol.Pages{Most: mostNames}, 0
		for {
			out, err := protocol.Checked(ctx, c.client).Query(ctx, &dynamodb.QueryInput{
				TableName: &c.table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: from,
				KeyConditionExpression: aws.String("pool_group = :partition"), ExpressionAttributeValues: attributes{":partition": str(partition)},
			}, protocol.Genuine)
			if err == nil {
				err = pages.Next(out)
			}
			if err != nil {
				yield(nil, fmt.Errorf("dynamocoordinator: Query of %s in table %q: %w", partition, c.table, err))
				return
			}
			for i, item := range out.Items {
				out.Items[i] = nil // frees memory: the reader keeps the attributes that it needs
				if !forgotten(item) {
					used++
				}
				if used > mostNodes {
					yield(nil, fmt.Errorf("dynamocoordinator: the partition %s of table %q has items of more than %d members that were alive in the last day: give members names that stay the same across restarts, and delete the items that no member wrote", partition, c.table, mostNodes))
					return
				}
				if protocol.Trimmed(item) != nil {
					continue // no node wrote this item
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

// get reads one item. It returns an empty item if there is none. If an item is too large,
// some of its attributes are missing, so callers check the attributes that they use.
func (c *Coordinator) get(ctx context.Context, partition string, node int64, strong bool) (attributes, error) {
	out, err := protocol.Checked(ctx, c.client).GetItem(ctx, &dynamodb.GetItemInput{TableName: &c.table, Key: key(partition, node), ConsistentRead: aws.Bool(strong)}, protocol.Genuine)
	if err != nil {
		return nil, fmt.Errorf("dynamocoordinator: GetItem of %s %d in table %q: %w", partition, node, c.table, err)
	}
	return out.Item, nil
}

// update sends one UpdateItem and returns the updated item, or nil if the condition
// failed.
func (c *Coordinator) update(ctx context.Context, partition string, node int64, set, onlyIf string, values attributes) (attributes, error) {
	in := &dynamodb.UpdateItemInput{
		TableName: &c.table, Key: key(partition, node), UpdateExpression: &set, ReturnValues: types.ReturnValueAllNew,
	}
	if len(values) > 0 { // an empty map is refused
		in.ExpressionAttributeValues = values
	}
	if onlyIf != "" {
		in.ConditionExpression = &onlyIf
	}
	out, err := protocol.Checked(ctx, c.client).UpdateItem(ctx, in, protocol.Genuine)
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dynamocoordinator: UpdateItem of %s %d in table %q: %w", partition, node, c.table, err)
	}
	if len(out.Attributes) == 0 { // it would count as a refusal
		return nil, fmt.Errorf("dynamocoordinator: UpdateItem of %s %d in table %q: %w: it holds no item", partition, node, c.table, protocol.ErrNotDynamoDB)
	}
	return out.Attributes, nil
}

// still returns the condition that an attribute has not changed since item was read, and
// adds its value to values.
//
// Invariant (liveness): a run over the partition does not end at an item that lacks the attribute
// because it was broken by hand.
func still(item attributes, name string, values attributes) string {
	if item[name] == nil {
		return "attribute_not_exists(" + name + ")"
	}
	values[":seen"] = item[name]
	return name + " = :seen"
}

func key(partition string, node int64) attributes {
	return attributes{"pool_group": str(partition), "node_id": num(node)}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// text returns the value of a string attribute, or "" if av is not a string.
func text(av types.AttributeValue) string {
	if s, ok := av.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// number returns the value of a number attribute, or 0 if av is not a number.
func number(av types.AttributeValue) int64 {
	if n, ok := av.(*types.AttributeValueMemberN); ok {
		v, _ := strconv.ParseInt(n.Value, 10, 64)
		return v
	}
	return 0
}
