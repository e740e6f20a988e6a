package protocol

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// The values of an item, as the SDK's types.

func num[T int | int64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
}

func millis(t time.Time) types.AttributeValue { return num(t.UnixMilli()) }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// encoded encodes a map, or a struct by the tags with which it is decoded.
func encoded[T map[string]string | IDLayout | previousItem | verdict | measured](v T) types.AttributeValue {
	av, _ := attributevalue.Marshal(v) // cannot fail for these types
	return av
}

// eraList encodes eras of a pool, as its item stores them.
func eraList(eras ...snowflake.Era) types.AttributeValue {
	list := []types.AttributeValue{}
	for _, e := range eras {
		list = append(list, &types.AttributeValueMemberM{Value: attributes{"from": millis(e.From), "node_bits": num(e.NodeBits)}})
	}
	return &types.AttributeValueMemberL{Value: list}
}
