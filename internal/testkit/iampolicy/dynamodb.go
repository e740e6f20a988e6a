package iampolicy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The condition keys of DynamoDB that the policies use.
const (
	LeadingKeys  = "dynamodb:LeadingKeys"  // the partition keys that the request names
	Attributes   = "dynamodb:Attributes"   // the top-level attributes that it names, including the key's
	ReturnValues = "dynamodb:ReturnValues" // the part of the item that it requests
	Select       = "dynamodb:Select"
)

// RequestOf returns a call of DynamoDB's client on a table as IAM sees it. The input
// is a *dynamodb.GetItemInput, QueryInput, ScanInput, UpdateItemInput, PutItemInput,
// DeleteItemInput or DescribeTableInput.
//
// The condition key dynamodb:Attributes lists the top-level attributes of the item's key and
// of every expression, and does not distinguish those that are written from those that are
// read. A call that names no attributes, such as a GetItem of the whole item, does not have
// that condition key.
func RequestOf(table string, input any) (Request, error) {
	r := Request{Resource: table, Context: map[string][]string{}}
	names, keys := map[string]bool{}, []string{}
	key := func(item map[string]types.AttributeValue) {
		for name, v := range item {
			names[name] = true
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				keys = append(keys, s.Value)
			}
		}
	}
	expressions := func(aliases map[string]string, all ...*string) {
		for _, e := range all {
			for name := range attributesOf(aws.ToString(e), aliases) {
				names[name] = true
			}
		}
	}
	switch in := input.(type) {
	case *dynamodb.DescribeTableInput:
		r.Action = "dynamodb:DescribeTable"
	case *dynamodb.GetItemInput:
		r.Action = "dynamodb:GetItem"
		key(in.Key)
		if in.ProjectionExpression == nil {
			clear(names) // for all attributes, a call has Select ALL_ATTRIBUTES instead of a list
			r.Context[Select] = []string{"ALL_ATTRIBUTES"}
		}
		expressions(in.ExpressionAttributeNames, in.ProjectionExpression)
	case *dynamodb.QueryInput:
		r.Action = "dynamodb:Query"
		for _, v := range in.ExpressionAttributeValues {
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				keys = append(keys, s.Value)
			}
		}
		r.Context[Select] = []string{"ALL_ATTRIBUTES"}
	case *dynamodb.ScanInput:
		r.Action = "dynamodb:Scan"
		r.Context[Select] = []string{"ALL_ATTRIBUTES"}
	case *dynamodb.UpdateItemInput:
		r.Action = "dynamodb:UpdateItem"
		key(in.Key)
		expressions(in.ExpressionAttributeNames, in.UpdateExpression, in.ConditionExpression)
		if in.ReturnValues != "" {
			r.Context[ReturnValues] = []string{string(in.ReturnValues)}
		}
	case *dynamodb.PutItemInput:
		r.Action = "dynamodb:PutItem"
		key(in.Item)
	case *dynamodb.DeleteItemInput:
		r.Action = "dynamodb:DeleteItem"
		key(in.Key)
	default:
		return r, fmt.Errorf("a call with %T is not implemented here", input)
	}
	if len(keys) > 0 {
		r.Context[LeadingKeys] = keys
	}
	if len(names) > 0 {
		r.Context[Attributes] = slices.Sorted(maps.Keys(names))
	}
	return r, nil
}

var (
	word     = regexp.MustCompile(`[#:]?[A-Za-z_][A-Za-z0-9_]*(\.[#A-Za-z0-9_]+|\[\d+\])*`)
	keywords = strings.Fields("SET REMOVE ADD DELETE AND OR NOT BETWEEN IN attribute_exists attribute_not_exists attribute_type begins_with contains size if_not_exists list_append")
)

// attributesOf returns the top-level attributes of an expression. In the product's
// expressions, every word is an attribute, a value or one of the keywords.
func attributesOf(expression string, aliases map[string]string) map[string]bool {
	names := map[string]bool{}
	for _, w := range word.FindAllString(expression, -1) {
		top := strings.FieldsFunc(w, func(r rune) bool { return r == '.' || r == '[' })[0]
		if top[0] == ':' || slices.Contains(keywords, top) {
			continue
		}
		if top[0] == '#' {
			top = aliases[top]
		}
		names[top] = true
	}
	return names
}
