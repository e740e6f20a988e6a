package lease_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/dynamotest"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// onDynamoDB runs a test on the embedded server and on DynamoDB Local.
func onDynamoDB(t *testing.T, test func(t *testing.T, client *dynamodb.Client, table string)) {
	for name, client := range map[string]func(testing.TB) *dynamodb.Client{"embedded": dynamotest.Embedded, "DynamoDB Local": dynamotest.Local} {
		t.Run(name, func(t *testing.T) {
			c := client(t)
			test(t, c, dynamotest.CreateTable(t, c))
		})
	}
}

type attributes = map[string]types.AttributeValue

func n(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }
func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

// heldItem is the item of number 0 as a holder leaves it.
func heldItem() attributes {
	return attributes{
		"pool_group": s("orders#0"), "node_id": n("0"), "holder": s("someone"), "task": s("a task"), "version": n("4"), "renewal": n("2"),
		"lease_ms": n("15000"), "expires_at": n("1700000015000"), "not_before": n("1700000000000"), "reserved_until": n("1700000016000"),
	}
}

func put(t *testing.T, client *dynamodb.Client, table string, item attributes) {
	t.Helper()
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// get reads the item of number 0.
func get(t *testing.T, client *dynamodb.Client, table string) attributes {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &table, Key: attributes{"pool_group": s("orders#0"), "node_id": n("0")}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// Whatever is wrong with an item, reading it says so, its neighbours are not in
// the way, and nothing heals it into a fresh one: what uniqueness and order rest
// on (version, reserved_until, expires_at) must be there before it is claimed.
func TestCorruptItems(t *testing.T) {
	type damage struct {
		harm   func(attributes)
		usable bool // a claim writes anew what is wrong
	}
	for name, c := range map[string]damage{
		"no version":                  {func(i attributes) { delete(i, "version") }, false},
		"version is a number as text": {func(i attributes) { i["version"] = s("4") }, false},
		"version is negative":         {func(i attributes) { i["version"] = n("-4") }, false},
		"no reserved_until":           {func(i attributes) { delete(i, "reserved_until") }, false},
		"reserved_until is text":      {func(i attributes) { i["reserved_until"] = s("soon") }, false},
		"reserved_until is huge":      {func(i attributes) { i["reserved_until"] = n("1e30") }, false},
		"reserved_until below 0":      {func(i attributes) { i["reserved_until"] = n("-1") }, false},
		"no expires_at":               {func(i attributes) { delete(i, "expires_at") }, false},
		"expires_at is a map":         {func(i attributes) { i["expires_at"] = &types.AttributeValueMemberM{Value: attributes{}} }, false},
		"expires_at is text":          {func(i attributes) { i["expires_at"] = s("1700000015000") }, false},
		"retired is a number":         {func(i attributes) { i["retired"] = n("1") }, false},
		"layout is text":              {func(i attributes) { i["layout"] = s("0") }, false},
		"holder is a number":          {func(i attributes) { i["holder"] = n("7") }, true},
		"holder is empty":             {func(i attributes) { i["holder"] = s("") }, true},
		"no not_before":               {func(i attributes) { delete(i, "not_before") }, true},
		"lease_ms is negative":        {func(i attributes) { i["lease_ms"] = n("-1") }, true},
		"metadata is a list":          {func(i attributes) { i["metadata"] = &types.AttributeValueMemberL{} }, true},
		"renewal is text":             {func(i attributes) { i["renewal"] = s("2") }, true},
		"expiry without a holder":     {func(i attributes) { delete(i, "holder") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			onDynamoDB(t, func(t *testing.T, client *dynamodb.Client, table string) {
				store := lease.NewDynamoDB(client, table)
				if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
					t.Fatal(err)
				}
				item := heldItem()
				c.harm(item)
				put(t, client, table, item)
				item = get(t, client, table)
				var corrupt *lease.CorruptError
				if _, err := store.Get(t.Context(), "orders", 0); !errors.As(err, &corrupt) || corrupt.NodeID != 0 {
					t.Errorf("Get: %v", err)
				}
				if g, err := store.Group(t.Context(), "orders", 0); err != nil || len(g.Leases) != 1 || len(g.Corrupt) != 1 {
					t.Errorf("Group: %+v, %v", g, err)
				}
				now := time.Now()
				for _, w := range []protocol.Write{
					protocol.Seed{Key: protocol.Key{Pool: "orders"}, Floor: now},
					protocol.Claim{Key: protocol.Key{Pool: "orders"}, Session: "me", At: now, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute)},
				} {
					if _, claim := w.(protocol.Claim); claim && c.usable {
						continue
					}
					if res, err := store.Write(t.Context(), w); !errors.As(err, &corrupt) {
						t.Errorf("%T: %+v, %v", w, res, err)
					}
					if now := get(t, client, table); !reflect.DeepEqual(now, item) {
						t.Fatalf("%T changed the item: %v, was %v", w, now, item)
					}
				}
				if c.usable {
					return
				}
				a, err := lease.Start(t.Context(), config(store))
				if err != nil {
					t.Fatal(err)
				}
				if a.NodeID() != 1 {
					t.Errorf("took %d", a.NodeID())
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A number that was marked for a newer layout is left alone by who does not
// know it: claims and renewals carry the newest layout that they know.
func TestLayoutIsRespected(t *testing.T) {
	onDynamoDB(t, func(t *testing.T, client *dynamodb.Client, table string) {
		store := lease.NewDynamoDB(client, table)
		item := heldItem()
		item["layout"] = n("1")
		put(t, client, table, item)
		k := protocol.Key{Pool: "orders"}
		for _, known := range []int64{0, 1} {
			now := time.Now()
			r := protocol.Renew{Key: k, Session: "someone", Version: 4, Renewal: 10 + known, ExpiresAt: now, ReservedUntil: now, Layout: known}
			if res, err := store.Write(t.Context(), r); err != nil || res.Applied != (known == 1) {
				t.Errorf("renewal that knows %d: %+v, %v", known, res, err)
			}
		}
		for _, known := range []int64{0, 1} {
			now := time.Now().Add(time.Hour)
			c := protocol.Claim{Key: k, Session: "next", At: now, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute), Layout: known}
			if res, err := store.Write(t.Context(), c); err != nil || res.Applied != (known == 1) {
				t.Errorf("claim that knows %d: %+v, %v", known, res, err)
			}
		}
	})
}

func TestUnknownItemFormat(t *testing.T) {
	onDynamoDB(t, func(t *testing.T, client *dynamodb.Client, table string) {
		put(t, client, table, attributes{"pool_group": s("orders"), "node_id": n("-1"), "item_format": n("2"), "pool_size": n("4"), "open_groups": n("1")})
		store := lease.NewDynamoDB(client, table)
		if _, err := lease.Start(t.Context(), config(store)); !errors.Is(err, lease.ErrItemFormat) {
			t.Error(err)
		}
		// A newer program made it so while this one was at work on the pool.
		for _, w := range []protocol.PoolWrite{
			protocol.ResizePool{Pool: "orders", From: 4, To: 8, At: time.Now()},
			protocol.OpenGroups{Pool: "orders", From: 1, To: 2},
		} {
			_, _ = store.WritePool(t.Context(), w) // what it says of an item that it cannot read does not count
			out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: attributes{"pool_group": s("orders"), "node_id": n("-1")}})
			if err != nil || !reflect.DeepEqual(out.Item["pool_size"], n("4")) || !reflect.DeepEqual(out.Item["open_groups"], n("1")) {
				t.Errorf("%T was done: %+v, %v", w, out.Item, err)
			}
		}
	})
}

func TestMissingTable(t *testing.T) {
	onDynamoDB(t, func(t *testing.T, client *dynamodb.Client, _ string) {
		_, err := lease.Start(t.Context(), config(lease.NewDynamoDB(client, "no-such-table")))
		if !errors.Is(err, lease.ErrTable) || !strings.Contains(err.Error(), `"no-such-table" does not exist`) {
			t.Error(err)
		}
	})
}

func TestWrongKeys(t *testing.T) {
	onDynamoDB(t, func(t *testing.T, client *dynamodb.Client, table string) {
		name := table + "-other"
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
		if _, err := lease.Start(t.Context(), config(lease.NewDynamoDB(client, name))); !errors.Is(err, lease.ErrTable) || !strings.Contains(err.Error(), "pk S HASH") {
			t.Error(err)
		}
	})
}

// described is a client whose table is described otherwise.
type described struct {
	*dynamodb.Client
	change func(*types.TableDescription)
	calls  atomic.Int64
}

func (d *described) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := d.Client.DescribeTable(ctx, in, o...)
	if err == nil && d.change != nil {
		d.change(out.Table)
	}
	return out, err
}

func (d *described) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	d.calls.Add(1)
	return d.Client.GetItem(ctx, in, o...)
}

func TestReplication(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
		t.Fatal(err)
	}
	replicas := []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}}
	for _, c := range []struct {
		name   string
		change func(*types.TableDescription)
		unsafe bool
	}{
		{"one Region", nil, false},
		{"MREC", func(d *types.TableDescription) { d.Replicas = replicas }, true},
		{"MREC by name", func(d *types.TableDescription) {
			d.Replicas, d.MultiRegionConsistency = replicas, types.MultiRegionConsistencyEventual
		}, true},
		{"MRSC", func(d *types.TableDescription) {
			d.Replicas, d.MultiRegionConsistency = replicas, types.MultiRegionConsistencyStrong
		}, false},
	} {
		a, err := lease.Start(t.Context(), config(lease.NewDynamoDB(&described{Client: client, change: c.change}, table)))
		if errors.Is(err, lease.ErrUnsafeReplication) != c.unsafe || err == nil == c.unsafe {
			t.Errorf("%s: %v", c.name, err)
		}
		if a != nil {
			_ = a.Close()
		}
	}
}

// A refusal that shows the item needs no read.
func TestRefusalNeedsNoRead(t *testing.T) {
	onDynamoDB(t, func(t *testing.T, client *dynamodb.Client, table string) {
		put(t, client, table, heldItem())
		d := &described{Client: client}
		res, err := lease.NewDynamoDB(d, table).Write(t.Context(), protocol.Renew{Key: protocol.Key{Pool: "orders"}, Session: "other", ExpiresAt: time.Now(), ReservedUntil: time.Now()})
		if err != nil || res.Applied || res.Lease == nil || res.Lease.Holder != "someone" || res.Lease.Version != 4 {
			t.Errorf("%+v, %v", res, err)
		}
		if d.calls.Load() != 0 {
			t.Errorf("%d reads", d.calls.Load())
		}
	})
}

// What AWS may answer, and what a start makes of it: errors that no retry mends
// end it at once with the remedy, the others are tried again.
func TestAWSErrors(t *testing.T) {
	type answer struct {
		status  int
		code    string
		message string
	}
	for _, c := range []struct {
		name   string
		op     string // the call that gets the answer
		answer answer
		want   error // nil: tried again
		text   string
	}{
		{"denied", "GetItem", answer{400, "AccessDeniedException", "User: arn:aws:iam::1:role/r is not authorized to perform: dynamodb:GetItem"}, lease.ErrAccess, "GrantLease"},
		{"expired token", "GetItem", answer{400, "ExpiredTokenException", "The security token included in the request is expired"}, lease.ErrAccess, "expired"},
		{"bad keys", "GetItem", answer{400, "UnrecognizedClientException", "The security token included in the request is invalid."}, lease.ErrAccess, "invalid"},
		{"wrong keys", "GetItem", answer{400, "ValidationException", "The provided key element does not match the schema"}, lease.ErrTable, "pool_group"},
		{"no table", "DescribeTable", answer{400, "ResourceNotFoundException", "Requested resource not found"}, lease.ErrTable, "does not exist"},
		{"nonsense", "UpdateItem", answer{400, "ValidationException", "Invalid UpdateExpression: Syntax error"}, lease.ErrTable, "Syntax error"},
		{"throttled", "UpdateItem", answer{400, "ProvisionedThroughputExceededException", "slow down"}, nil, ""},
		{"throttled account", "Query", answer{400, "ThrottlingException", "slow down"}, nil, ""},
		{"broken", "UpdateItem", answer{500, "InternalServerError", "oops"}, nil, ""},
		{"unavailable", "GetItem", answer{503, "ServiceUnavailable", "oops"}, nil, ""},
		{"replicated write conflict", "UpdateItem", answer{400, "ReplicatedWriteConflictException", "again"}, nil, ""},
		{"check not permitted", "DescribeTable", answer{400, "AccessDeniedException", "no"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := dynamotest.Embedded(t)
			table := dynamotest.CreateTable(t, client)
			if _, err := leasepool.Open(lease.NewDynamoDB(client, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 1}); err != nil {
				t.Fatal(err)
			}
			// A proxy that gives the answer: for ever if it is final, else once.
			var given atomic.Int64
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "."+c.op) && (given.Add(1) == 1 || c.want != nil) {
					w.Header().Set("Content-Type", "application/x-amz-json-1.0")
					w.WriteHeader(c.answer.status)
					_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#` + c.answer.code + `","message":"` + c.answer.message + `"}`))
					return
				}
				forward(t, client, w, r)
			}))
			defer proxy.Close()
			a, err := lease.Start(t.Context(), config(lease.NewDynamoDB(dynamotest.Client(t, proxy.URL), table)))
			if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want %v with %q", err, c.want, c.text)
			}
			if c.want != nil && given.Load() != 1 {
				t.Errorf("tried %d times", given.Load())
			}
			if a != nil {
				_ = a.Close()
			}
		})
	}
}

// forward sends a request on to the client's endpoint.
func forward(t *testing.T, client *dynamodb.Client, w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, *client.Options().BaseEndpoint, r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header = r.Header
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	for k, v := range res.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}
