package protocol

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// PoolIndex is the partition with the names of the table's pools, one item per pool.
	// Its key has no pool name before the #, so it is not the key of a group of any
	// pool.
	PoolIndex = "#pools"
	// indexed is the attribute with a pool's name. The sort key is a hash of the name.
	indexed = "pool_name"
	// mostPools is how many pools one table may have.
	mostPools = 10_000
)

// indexNode returns the sort key of a pool's entry: 53 bits of the name's hash, which
// even programs that read numbers as floats keep exactly.
func indexNode(pool string) string {
	sum := sha256.Sum256([]byte(pool))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>11, 10)
}

// RecordPool adds a pool to the table's index. The call may be repeated. The lists
// that people read depend on the index, and the bootstrap function, which finds renamed pools there.
func (d *DynamoDB) RecordPool(ctx context.Context, pool string) error {
	if err := CheckPoolName(pool); err != nil {
		return err
	}
	_, err := Checked(ctx, d.client).UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: attributes{partitionKey: str(PoolIndex), sortKey: &types.AttributeValueMemberN{Value: indexNode(pool)}},
		UpdateExpression:          aws.String("SET " + indexed + " = :pool"),
		ExpressionAttributeValues: attributes{":pool": str(pool)},
	}, once)
	return explain(err, "UpdateItem", d.table)
}

// Pools returns the names in the table's index, sorted. It skips entries that RecordPool
// would not write.
func (d *DynamoDB) Pools(ctx context.Context) ([]string, error) {
	var names []string
	err := d.partition(ctx, PoolIndex, mostPools, func(av attributes) {
		name, ok := av[indexed].(*types.AttributeValueMemberS)
		if ok && CheckPoolName(name.Value) == nil && numberOf(av[sortKey]) == indexNode(name.Value) {
			names = append(names, name.Value)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}
