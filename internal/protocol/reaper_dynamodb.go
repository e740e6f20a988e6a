package protocol

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// ReaperMemory implements [Store].
func (d *DynamoDB) ReaperMemory(ctx context.Context, pool string) (ReaperMemory, error) {
	out, err := d.read(ctx, memoryKey(pool), true)
	if err != nil {
		return ReaperMemory{}, err
	}
	if len(out.Item) == 0 {
		return ReaperMemory{Pool: pool}, nil
	}
	return decodeMemory(pool, out.Item)
}

// WriteReaperMemory implements [Store].
func (d *DynamoDB) WriteReaperMemory(ctx context.Context, w MemoryWrite) (applied bool, err error) {
	u, ok := w.(interface{ update() update })
	if !ok {
		return false, fmt.Errorf("lease: %T is not a write of this package", w)
	}
	one := u.update()
	in := &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: memoryKey(w.PoolName()), UpdateExpression: &one.set, ExpressionAttributeValues: one.values,
	}
	if one.onlyIf != "" {
		in.ConditionExpression = &one.onlyIf
	}
	if _, err = Checked(ctx, d.client).UpdateItem(ctx, in, once); err == nil {
		return true, nil
	}
	if _, refused := refusal(err); refused {
		return false, nil
	}
	return false, explain(err, "UpdateItem", d.table)
}
