package conform

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

var (
	seed       = flag.Uint64("seed", 201, "seed of the differential fuzzer")
	operations = flag.Int("operations", 3000, "how many requests the differential fuzzer sends")
)

// TestDifferential sends the same random requests to the embedded DynamoDB and to DynamoDB Local.
//
// Answers must be exactly equal, with two exceptions: the table of differences, and requests with two
// faults, of which either may be named. The latter exception is kept narrow: both must call the request
// invalid, and the embedded server must usually give the same message as Local for such requests.
func TestDifferential(t *testing.T) {
	differential(t, dynamotest.Local(t), true)
}

// TestThirdOpinion does the same with dynoxide, whose makers compare its answers with recordings of AWS.
// Where dynoxide and the embedded DynamoDB agree against Local, Local differs from the service.
func TestThirdOpinion(t *testing.T) {
	differential(t, dynoxide(t), false)
}

func differential(t *testing.T, local *dynamodb.Client, isLocal bool) {
	embedded := dynamotest.Embedded(t)
	localTable, embeddedTable := dynamotest.CreateTable(t, local), dynamotest.CreateTable(t, embedded)
	t.Logf("to repeat: -run '%s$' -args -seed %d -operations %d", t.Name(), *seed, *operations)
	known := func(got, want string) (string, bool) { return known(got, want, isLocal) }
	g := &generator{Rand: rand.New(rand.NewPCG(*seed, 0))}
	var same, twoFaults int
	outcomes, reasons := map[string]int{}, map[string]int{}
	refusals := map[string]*refusal{} // by Local's message
	for n := range *operations {
		request := g.request()
		want, got := send(t, local, localTable, request), send(t, embedded, embeddedTable, request)
		if !isLocal {
			want = strings.Replace(want, "ValidationException: 1 validation error detected: Invalid", "ValidationException: Invalid", 1)
			want = strings.Replace(want, "ValidationException: 1 validation error detected: Value provided", "ValidationException: Value provided", 1)
		}
		want = zeros.ReplaceAllString(want, "$1$2")
		code, _, _ := strings.Cut(want, ": ")
		gotCode, _, _ := strings.Cut(got, ": ")
		outcomes[kind(request)+" "+strings.Fields(code)[0]]++
		r := refusals[shape(want)]
		if r == nil {
			r = &refusal{}
			refusals[shape(want)] = r
		}
		report := func() string {
			return fmt.Sprintf("operation %d: %s\nwith the item %s\nthe other: %s\nembedded:  %s", n, describe(request), state(t, local, localTable, request), want, got)
		}
		switch why, ok := known(got, want); {
		case got == want:
			same++
			r.same++
			if removesOnly(request) { // the answer may not show the effect: see differences
				alike(t, embedded, embeddedTable, local, localTable, request)
			}
		case ok:
			reasons[why]++
			r.same++
			alike(t, embedded, embeddedTable, local, localTable, request)
		case code == gotCode && code == "ValidationException":
			twoFaults++
			if r.other++; r.other == 1 {
				r.example = report()
			}
		default:
			t.Fatal(report()) // from here on their items differ
		}
	}
	for what, r := range refusals {
		if r.other > r.same+3 {
			t.Errorf("%d of %d times an answer other than %q, such as\n%s", r.other, r.same+r.other, what, r.example)
		}
	}
	t.Logf("%d operations: %d answers the same, %d of two faults, and known:", *operations, same, twoFaults)
	for _, why := range sorted(reasons) {
		t.Logf("%6d %s", reasons[why], why)
	}
	t.Logf("not compared: %s", strings.Join(notCompared, "; "))
	t.Log("distribution of answers:")
	for _, o := range sorted(outcomes) {
		t.Logf("%6d %s", outcomes[o], o)
	}
}

// alike copies the item of the embedded DynamoDB to the other, after a write that may have had different effects.
func alike(t *testing.T, embedded *dynamodb.Client, embeddedTable string, other *dynamodb.Client, otherTable string, request any) {
	t.Helper()
	var key map[string]types.AttributeValue
	switch in := request.(type) {
	case *dynamodb.UpdateItemInput:
		key = in.Key
	case *dynamodb.PutItemInput:
		key = map[string]types.AttributeValue{"pool_group": in.Item["pool_group"], "node_id": in.Item["node_id"]}
	default:
		return
	}
	out, err := embedded.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &embeddedTable, Key: key})
	switch {
	case err != nil: // the key is invalid
	case out.Item == nil:
		_, err = other.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &otherTable, Key: key})
	default:
		_, err = other.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &otherTable, Item: out.Item})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// removesOnly reports whether a request is an update that only removes attributes.
func removesOnly(request any) bool {
	u, ok := request.(*dynamodb.UpdateItemInput)
	return ok && strings.HasPrefix(*u.UpdateExpression, "REMOVE") && !strings.Contains(*u.UpdateExpression, "SET")
}

// zeros matches a number with the zeros that DynamoDB Local leaves at the end of a fraction (see notCompared).
var zeros = regexp.MustCompile(`([ :\[]-?\d+)(?:\.0+|(\.\d*[1-9])0+)\b`)

// A refusal counts, for one message of DynamoDB Local, how often the embedded DynamoDB had
// the same text and how often a different one.
type refusal struct {
	same, other int
	example     string
}

// send makes the request on a table and returns the answer as text.
func send(t *testing.T, client *dynamodb.Client, table string, request any) string {
	t.Helper()
	ctx := t.Context()
	var err error
	var answer string
	switch in := request.(type) {
	case *dynamodb.UpdateItemInput:
		in.TableName = &table
		var out *dynamodb.UpdateItemOutput
		if out, err = client.UpdateItem(ctx, in); err == nil {
			answer = text(out.Attributes)
		}
	case *dynamodb.PutItemInput:
		in.TableName = &table
		var out *dynamodb.PutItemOutput
		if out, err = client.PutItem(ctx, in); err == nil {
			answer = text(out.Attributes)
		}
	case *dynamodb.GetItemInput:
		in.TableName = &table
		var out *dynamodb.GetItemOutput
		if out, err = client.GetItem(ctx, in); err == nil {
			answer = text(out.Item)
		}
	case *dynamodb.QueryInput:
		in.TableName = &table
		var out *dynamodb.QueryOutput
		if out, err = client.Query(ctx, in); err == nil {
			answer = fmt.Sprint(texts(out.Items), out.Count, out.ScannedCount, text(out.LastEvaluatedKey))
		}
	}
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		return errorText(err) + text(refused.Item)
	}
	return cmp.Or(errorText(err), "ok "+kind(request)+" "+answer)
}

func kind(request any) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", request), "*dynamodb."), "Input")
}

func texts(items []map[string]types.AttributeValue) (all []string) {
	for _, i := range items {
		all = append(all, text(i))
	}
	return all
}

// shape returns an answer without the parts that differ from one request to the next.
func shape(answer string) string {
	if i := strings.IndexAny(answer, "{[;"); i >= 0 {
		answer = answer[:i]
	}
	return answer
}

func describe(request any) string {
	switch in := request.(type) {
	case *dynamodb.UpdateItemInput:
		return fmt.Sprintf("UpdateItem %s %q IF %q with %s, %s", text(in.Key), *in.UpdateExpression, aws.ToString(in.ConditionExpression), text(in.ExpressionAttributeValues), in.ReturnValues)
	case *dynamodb.PutItemInput:
		return fmt.Sprintf("PutItem %s IF %q with %s", text(in.Item), aws.ToString(in.ConditionExpression), text(in.ExpressionAttributeValues))
	case *dynamodb.GetItemInput:
		return fmt.Sprintf("GetItem %s", text(in.Key))
	case *dynamodb.QueryInput:
		return fmt.Sprintf("Query %q with %s, limit %d, after %s", *in.KeyConditionExpression, text(in.ExpressionAttributeValues), aws.ToInt32(in.Limit), text(in.ExclusiveStartKey))
	}
	return ""
}

// state returns the current item of the request.
func state(t *testing.T, client *dynamodb.Client, table string, request any) string {
	t.Helper()
	key := map[string]types.AttributeValue(nil)
	switch in := request.(type) {
	case *dynamodb.UpdateItemInput:
		key = in.Key
	case *dynamodb.GetItemInput:
		key = in.Key
	default:
		return "(any)"
	}
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return text(out.Item)
}
