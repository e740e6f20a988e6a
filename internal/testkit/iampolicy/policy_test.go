package iampolicy_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	. "github.com/nodelease/nodelease/internal/testkit/iampolicy"
)

const table = "arn:aws:dynamodb:us-west-2:123456789012:table/GameScores"

func parse(t *testing.T, statements string) Policy {
	t.Helper()
	p, err := Parse([]byte(`{"Version":"2012-10-17","Statement":[` + statements + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The examples of "Using IAM policy conditions for fine-grained access control" in
// DynamoDB's Developer Guide, with the user ID instead of the policy variable.
func TestDocumentedByDynamoDB(t *testing.T) {
	// Example 1: access to items with a partition key that is the user's ID.
	ownItems := parse(t, `{"Effect":"Allow","Action":["dynamodb:GetItem","dynamodb:Query","dynamodb:PutItem","dynamodb:UpdateItem"],"Resource":["`+table+`"],
		"Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["user-1"]}}}`)
	// Example 3: some attributes only, asked for by name.
	someAttributes := parse(t, `{"Effect":"Allow","Action":["dynamodb:UpdateItem","dynamodb:GetItem","dynamodb:Query"],"Resource":"`+table+`",
		"Condition":{"ForAllValues:StringEquals":{"dynamodb:Attributes":["UserId","TopScore"]},
		"StringEqualsIfExists":{"dynamodb:Select":"SPECIFIC_ATTRIBUTES","dynamodb:ReturnValues":["NONE","UPDATED_OLD","UPDATED_NEW"]}}}`)
	// Example 5: both together.
	both := parse(t, `{"Effect":"Allow","Action":["dynamodb:GetItem","dynamodb:UpdateItem"],"Resource":["`+table+`"],
		"Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":["user-1"],"dynamodb:Attributes":["UserId","GameTitle","Wins"]},
		"StringEqualsIfExists":{"dynamodb:Select":"SPECIFIC_ATTRIBUTES"}}}`)
	// The alternative in example 2: a Deny that overrides an Allow.
	noWrites := Join(parse(t, `{"Effect":"Allow","Action":"dynamodb:*","Resource":"`+table+`"}`),
		parse(t, `{"Effect":"Deny","Action":["dynamodb:Put*","dynamodb:Update*"],"Resource":"*"}`))

	with := func(action string, context map[string][]string) Request {
		return Request{Action: "dynamodb:" + action, Resource: table, Context: context}
	}
	own, other := []string{"user-1"}, []string{"user-2"}
	for i, test := range []struct {
		policy Policy
		r      Request
		want   bool
	}{
		{ownItems, with("GetItem", map[string][]string{LeadingKeys: own}), true},
		{ownItems, with("GetItem", map[string][]string{LeadingKeys: other}), false},
		{ownItems, with("GetItem", map[string][]string{LeadingKeys: {"user-1", "user-2"}}), false},
		{ownItems, with("Scan", nil), false},   // not listed; Scan has no leading keys, so it must not be
		{ownItems, with("GetItem", nil), true}, // ForAllValues holds if the key is missing
		{ownItems, with("DeleteItem", map[string][]string{LeadingKeys: own}), false},
		{ownItems, Request{"dynamodb:GetItem", table + "2", map[string][]string{LeadingKeys: own}}, false},
		{ownItems, with("getitem", map[string][]string{LeadingKeys: own}), true}, // actions are not case-sensitive
		{ownItems, with("GetItem", map[string][]string{"dynamodb:leadingkeys": other}), false},
		{ownItems, with("GetItem", map[string][]string{LeadingKeys: {"USER-1"}}), false},

		{someAttributes, with("GetItem", map[string][]string{Attributes: {"UserId", "TopScore"}, Select: {"SPECIFIC_ATTRIBUTES"}}), true},
		{someAttributes, with("GetItem", map[string][]string{Attributes: {"UserId", "TopScore", "Wins"}, Select: {"SPECIFIC_ATTRIBUTES"}}), false},
		{someAttributes, with("GetItem", map[string][]string{Select: {"ALL_ATTRIBUTES"}}), false}, // the reason for the condition on Select
		{someAttributes, with("UpdateItem", map[string][]string{Attributes: {"UserId", "TopScore"}, ReturnValues: {"UPDATED_NEW"}}), true},
		{someAttributes, with("UpdateItem", map[string][]string{Attributes: {"UserId", "TopScore"}, ReturnValues: {"ALL_NEW"}}), false},
		{someAttributes, with("UpdateItem", map[string][]string{Attributes: {"UserId", "TopScore"}}), true}, // IfExists holds if the key is missing

		{both, with("UpdateItem", map[string][]string{LeadingKeys: own, Attributes: {"UserId", "Wins"}}), true},
		{both, with("UpdateItem", map[string][]string{LeadingKeys: own, Attributes: {"UserId", "Losses"}}), false},
		{both, with("UpdateItem", map[string][]string{LeadingKeys: other, Attributes: {"UserId", "Wins"}}), false},

		{noWrites, with("GetItem", nil), true},
		{noWrites, with("UpdateItem", nil), false},
		{noWrites, Request{"s3:GetObject", table, nil}, false},
		{Policy{}, with("GetItem", nil), false},
	} {
		if got := test.policy.Allows(test.r); got != test.want {
			t.Errorf("%d: %+v: allowed is %v, want %v", i, test.r, got, test.want)
		}
	}
}

// The rules of "IAM JSON policy elements: Condition operators" and "Multivalued context keys"
// are tried for each operator, for a key that has values, has no values, or is missing.
func TestDocumentedByIAM(t *testing.T) {
	const key = "aws:TagKeys"
	for _, test := range []struct {
		operator, want string
		got            []string // nil if the key is missing
		holds          bool
	}{
		{"StringEquals", `"a"`, []string{"a"}, true},
		{"StringEquals", `"a"`, []string{"A"}, false},
		{"StringEquals", `["a","b"]`, []string{"b"}, true},
		{"StringEquals", `"a*"`, []string{"ab"}, false},
		{"StringEquals", `"a"`, nil, false},
		{"StringEqualsIfExists", `"a"`, nil, true},
		{"StringEqualsIfExists", `"a"`, []string{"b"}, false},
		{"StringNotEquals", `["a","b"]`, []string{"b"}, false},
		{"StringNotEquals", `["a","b"]`, []string{"c"}, true},
		{"StringNotEquals", `"a"`, nil, true},
		{"StringLike", `"a*"`, []string{"abc"}, true},
		{"StringLike", `"a?c"`, []string{"abc"}, true},
		{"StringLike", `"a?c"`, []string{"ac"}, false},
		{"StringLike", `"a*"`, []string{"Abc"}, false},
		{"StringLike", `"a*"`, nil, false},
		{"StringNotLike", `"a*"`, []string{"abc"}, false},
		{"StringNotLike", `"a*"`, nil, true},
		{"ForAllValues:StringEquals", `["a","b"]`, []string{"a", "b"}, true},
		{"ForAllValues:StringEquals", `["a","b"]`, []string{"a", "c"}, false},
		{"ForAllValues:StringEquals", `"a"`, []string{}, true},
		{"ForAllValues:StringEquals", `"a"`, nil, true},
		{"ForAllValues:StringLike", `"Created*"`, []string{"CreatedBy", "CreatedAt"}, true},
		{"ForAllValues:StringLike", `"Created*"`, []string{"CreatedBy", "Owner"}, false},
		{"ForAnyValue:StringEquals", `["a","b"]`, []string{"x", "b"}, true},
		{"ForAnyValue:StringEquals", `["a","b"]`, []string{"x"}, false},
		{"ForAnyValue:StringEquals", `"a"`, []string{}, false},
		{"ForAnyValue:StringEquals", `"a"`, nil, false},
		{"ForAllValues:StringNotEquals", `["a"]`, []string{"b", "a"}, false},
		{"ForAllValues:StringNotEquals", `["a"]`, []string{"b", "c"}, true},
		{"Null", `"true"`, nil, true},
		{"Null", `"true"`, []string{"a"}, false},
		{"Null", `"false"`, nil, false},
		{"Null", `"false"`, []string{"a"}, true},
		{"Bool", `"true"`, []string{"TRUE"}, true},
		{"Bool", `"true"`, []string{"false"}, false},
		{"Bool", `"false"`, nil, false},
		{"BoolIfExists", `"false"`, nil, true},
		{"ArnLike", `"arn:aws:s3:::b*"`, []string{"arn:aws:s3:::bucket"}, true},
	} {
		p := parse(t, fmt.Sprintf(`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{%q:{%q:%s}}}`, test.operator, key, test.want))
		r := Request{Action: "x:Y", Resource: "r", Context: map[string][]string{}}
		if test.got != nil {
			r.Context[key] = test.got
		}
		if got := p.Allows(r); got != test.holds {
			t.Errorf("%s %s of %v: holds is %v, want %v", test.operator, test.want, test.got, got, test.holds)
		}
	}
}

// Unknown elements are refused, so that no part of a policy is ignored.
func TestUnknownIsRefused(t *testing.T) {
	for _, statement := range []string{
		`{"Effect":"Allow","NotAction":"dynamodb:*","Resource":"*"}`,
		`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"NumericEquals":{"a":"1"}}}`,
		`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForSomeValues:StringLike":{"a":"1"}}}`,
		`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"ForAllValues:Null":{"a":"true"}}}`,
		`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringLike":{"a":[]}}}`,
		`{"Effect":"Allow","Action":"*"}`, `{"Effect":"Perhaps","Action":"*","Resource":"*"}`, `{}`, `1`,
	} {
		if p, err := Parse([]byte(`{"Version":"2012-10-17","Statement":[` + statement + `]}`)); err == nil {
			t.Errorf("%s was read as %v", statement, p)
		}
	}
	for _, document := range []string{`{"Version":"2008-10-17","Statement":[]}`, `{"Version":"2012-10-17","Statement":[]} x`, ``} {
		if _, err := Parse([]byte(document)); err == nil {
			t.Errorf("%s was accepted", document)
		}
	}
	if _, err := RequestOf(table, "a text"); err == nil {
		t.Error("text was parsed as a call")
	}
}

func TestLike(t *testing.T) {
	for _, test := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false}, {"*a*b*", "xxaxxbxx", true},
		{"a**", "a", true}, {"?", "", false}, {"??", "字字", true}, {"orders#?", "orders#7", true}, {"orders#?", "orders#77", false},
		{"a*b*c", "abcbc", true}, {"*ab", "aab", true}, {"a*", "ba", false},
	} {
		if got := Like(test.pattern, test.s); got != test.want {
			t.Errorf("%q like %q is %v, want %v", test.s, test.pattern, got, test.want)
		}
	}
}

func TestRequestOf(t *testing.T) {
	key := map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders#0"}, "node_id": &types.AttributeValueMemberN{Value: "7"}}
	for _, test := range []struct {
		input any
		want  Request
	}{
		{&dynamodb.UpdateItemInput{
			Key: key, UpdateExpression: aws.String("SET version = version + :one, #m.zone = if_not_exists(holder, :none), l[0] = :x REMOVE taken_from"),
			ConditionExpression: aws.String("attribute_not_exists(retired) AND (reserved_until BETWEEN :a AND :b OR NOT widen_try <= :k)"), ReturnValues: types.ReturnValueAllNew,
			ExpressionAttributeNames: map[string]string{"#m": "metadata"},
		}, Request{"dynamodb:UpdateItem", table, map[string][]string{
			LeadingKeys: {"orders#0"}, ReturnValues: {"ALL_NEW"},
			Attributes: {"holder", "l", "metadata", "node_id", "pool_group", "reserved_until", "retired", "taken_from", "version", "widen_try"},
		}}},
		{&dynamodb.GetItemInput{Key: key}, Request{"dynamodb:GetItem", table, map[string][]string{LeadingKeys: {"orders#0"}, Select: {"ALL_ATTRIBUTES"}}}},
		{&dynamodb.GetItemInput{Key: key, ProjectionExpression: aws.String("version")}, Request{"dynamodb:GetItem", table, map[string][]string{
			LeadingKeys: {"orders#0"}, Attributes: {"node_id", "pool_group", "version"}}}},
		{&dynamodb.DescribeTableInput{}, Request{"dynamodb:DescribeTable", table, map[string][]string{}}},
	} {
		if got, err := RequestOf(table, test.input); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("got %+v, %v, want %+v", got, err, test.want)
		}
	}
}
