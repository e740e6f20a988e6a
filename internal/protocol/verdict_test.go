package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
)

// A verdict is valid only for the table for which it was made, for an hour, and not
// before the time at which it was made.
func TestVerdictCounts(t *testing.T) {
	in := func(region, table string) protocol.Store {
		return protocol.NewDynamoDB(dynamodb.New(dynamodb.Options{Region: region}), table)
	}
	now := time.Now()
	made := func(ago time.Duration) *protocol.Verdict {
		return &protocol.Verdict{Region: "us-east-1", Table: "leases", At: now.Add(-ago), By: "reaper", Safe: true}
	}
	unsafe := made(time.Minute)
	unsafe.Safe = false
	nowhere := made(time.Minute)
	nowhere.Region = ""
	here := in("us-east-1", "leases")
	for name, c := range map[string]struct {
		v    *protocol.Verdict
		s    protocol.Store
		want bool
	}{
		"none":                         {nil, here, false},
		"of this moment":               {made(0), here, true},
		"of a minute ago":              {made(time.Minute), here, true},
		"of an hour ago":               {made(time.Hour), here, true},
		"older":                        {made(time.Hour + time.Millisecond), here, false},
		"from the future":              {made(-time.Millisecond), here, false},
		"of another Region":            {made(time.Minute), in("eu-west-1", "leases"), false},
		"of another table":             {made(time.Minute), in("us-east-1", "restored"), false},
		"of the table with that ARN":   {made(time.Minute), in("us-east-1", "arn:aws:dynamodb:us-east-1:111111111111:table/leases"), true},
		"unsafe":                       {unsafe, here, false},
		"of no Region, for nobody's":   {nowhere, in("", "leases"), false},
		"for a store that makes none":  {made(time.Minute), protocol.Store(nil), false},
		"for a client without Options": {made(time.Minute), protocol.NewDynamoDB(nil, "leases"), false},
	} {
		if got := c.v.Counts(c.s, now); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Only a complete answer leads to a verdict, but every answer is checked.
func TestVerdictNeedsAWholeAnswer(t *testing.T) {
	const whole = `{"Table":{"TableArn":"arn:aws:dynamodb:us-east-1:111111111111:table/leases","TableStatus":"ACTIVE","KeySchema":[{"AttributeName":"pool_group","KeyType":"HASH"},` +
		`{"AttributeName":"node_id","KeyType":"RANGE"}],"AttributeDefinitions":[{"AttributeName":"pool_group","AttributeType":"S"},{"AttributeName":"node_id","AttributeType":"N"}]}}`
	replicated := strings.Replace(whole, `"KeySchema"`, `"Replicas":[{"RegionName":"eu-west-1"}],"KeySchema"`, 1)
	for name, c := range map[string]struct {
		body         string
		verdict, bad bool
	}{
		"whole":                   {body: whole, verdict: true},
		"replicated":              {body: replicated, verdict: true, bad: true},
		"of other keys":           {body: strings.ReplaceAll(whole, "node_id", "id"), verdict: true, bad: true},
		"of an emulator":          {body: strings.Replace(whole, "us-east-1:111111111111", "ddblocal:000000000000", 1), verdict: true},
		"without an ARN":          {body: strings.Replace(whole, "TableArn", "Other", 1)},
		"of another Region":       {body: strings.Replace(whole, "us-east-1", "eu-west-1", 1)},
		"of another table":        {body: strings.Replace(whole, "table/leases", "table/other", 1)},
		"of a table that changes": {body: strings.Replace(whole, "ACTIVE", "UPDATING", 1)},
		"without a status":        {body: strings.Replace(whole, "TableStatus", "Other", 1)},
		"without key types":       {body: strings.Replace(whole, "AttributeDefinitions", "Other", 1), bad: true},
	} {
		began := time.Now()
		v, err := answering(t, 200, c.body, genuine(c.body)).Judge(t.Context())
		if (err != nil) != c.bad || (v != nil) != c.verdict {
			t.Fatalf("%s: got %+v, %v, want a verdict: %v, an error: %v", name, v, err, c.verdict, c.bad)
		}
		if v != nil && (v.Safe == c.bad || v.Region != "us-east-1" || v.Table != "leases" || v.At.Before(began) || v.At.After(time.Now())) {
			t.Errorf("%s: got %+v", name, v)
		}
	}
	denied := `{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"no"}`
	if v, err := answering(t, 400, denied, genuine(denied)).Judge(t.Context()); v != nil || err == nil {
		t.Errorf("denied: got %+v, %v, want no verdict", v, err)
	}
}
