package protocol

import (
	"strconv"
	"time"

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

func stringMap(m map[string]string) types.AttributeValue {
	av := attributes{}
	for k, v := range m {
		av[k] = str(v)
	}
	return &types.AttributeValueMemberM{Value: av}
}

func layoutMap(l IDLayout) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: attributes{
		"epoch_ms": num(l.EpochMS), "tick_ms": num(l.TickMS), "time_bits": num(int(l.TimeBits)), "node_bits": num(int(l.NodeBits)),
		"sequence_bits": num(int(l.SequenceBits)), "node_last": boolean(l.NodeLast),
	}}
}

func previous(session string, version int64, how Ending) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: attributes{"session": str(session), "version": num(version), "ended": str(how)}}
}

// eraList encodes eras of a pool, as its item stores them.
func eraList(eras ...snowflake.Era) types.AttributeValue {
	list := []types.AttributeValue{}
	for _, e := range eras {
		list = append(list, &types.AttributeValueMemberM{Value: attributes{"from": millis(e.From), "node_bits": num(e.NodeBits)}})
	}
	return &types.AttributeValueMemberL{Value: list}
}
