package protocol

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/embeddeddb"
)

// Tests with items that no program of ours has written: with attributes that are missing,
// of the wrong type, huge or negative.

// fuzzNode is the node ID whose item is strange, between two node IDs with normal items.
const fuzzNode = 5

// strange makes attributes from bytes. For each name, the bytes decide whether the
// attribute exists, and which type and value it has.
func strange(data []byte, names ...string) attributes {
	av := attributes{}
	next := func(n int) []byte {
		n = min(n, len(data))
		piece := data[:n]
		data = data[n:]
		return piece
	}
	one := func() int {
		if b := next(1); len(b) == 1 {
			return int(b[0])
		}
		return 0
	}
	number := func() string {
		switch b := one(); b % 12 {
		case 0:
			return "0"
		case 1:
			return "-1"
		case 2:
			return "1.5"
		case 3:
			return "9223372036854775807"
		case 4:
			return "9223372036854775808"
		case 5:
			return "1E+125"
		case 6:
			return "253402300799999"
		case 7:
			return "253402300800000"
		case 8, 9:
			return strconv.FormatInt(1795219200000+int64(one())-128, 10)
		default:
			return strconv.Itoa(b)
		}
	}
	for _, name := range names {
		switch one() % 16 {
		case 0: // missing
		case 1:
			av[name] = &types.AttributeValueMemberBOOL{Value: one()%2 == 0}
		case 2:
			av[name] = &types.AttributeValueMemberNULL{Value: true}
		case 3:
			av[name] = &types.AttributeValueMemberB{Value: next(one() % 8)}
		case 4:
			av[name] = &types.AttributeValueMemberL{Value: []types.AttributeValue{num(one())}}
		case 5:
			av[name] = &types.AttributeValueMemberM{Value: attributes{string(next(one() % 4)): num(one())}}
		case 6:
			av[name] = &types.AttributeValueMemberNS{Value: []string{number()}}
		case 7, 8, 9:
			av[name] = str(string(bytes.ToValidUTF8(next(one()%8), nil)))
		default:
			av[name] = &types.AttributeValueMemberN{Value: number()}
		}
	}
	return av
}

func strangeItem(data []byte) attributes {
	av := strange(data, "holder", "task", "version", "renewal", "expires_at", "lease_ms", "not_before", "reserved_until", "widen_try", "retired", "metadata", "resize", "on_demand", "taken_from", "previous")
	for name, v := range itemKey(Key{"p", fuzzNode}) {
		av[name] = v
	}
	return av
}

// well has the bytes of an item in which nothing is strange.
var well = []byte{
	7, 2, 'm', 'e', 7, 1, 't', 10, 11, 10, 0, 10, 8, 200, 10, 11, 10, 8, 100, 10, 8, 220, 0, 0, 5, 1, 'k', 0,
}

// direct sends the client's requests to a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// fuzzTable returns a table with three node IDs on an embedded server.
func fuzzTable(f *testing.F) (*dynamodb.Client, *DynamoDB) {
	client, s := newTable(f)
	for _, n := range []int{fuzzNode - 1, fuzzNode + 1} {
		if res, err := s.Write(context.Background(), Seed{Key: Key{"p", n}, Floor: time.UnixMilli(1795219200000)}); err != nil || !res.Applied {
			f.Fatal(res, err)
		}
	}
	return client, s
}

// newTable returns a new table on an embedded server.
func newTable(f testing.TB) (*dynamodb.Client, *DynamoDB) {
	server, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		f.Fatal(err)
	}
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://db"), Credentials: credentials.NewStaticCredentialsProvider("A", "B", ""),
		HTTPClient: &http.Client{Transport: direct{server}}, Retryer: aws.NopRetryer{},
	})
	_, err = client.CreateTable(context.Background(), &dynamodb.CreateTableInput{
		TableName: aws.String("leases"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(partitionKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(sortKey), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(partitionKey), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(sortKey), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	return client, NewDynamoDB(client, "leases")
}

// For any content of an item, a read returns a valid lease or a *CorruptError, and its
// neighbours are read as usual. A write to a valid item does the same as Apply, and no
// claim continues from an invalid version or reserved_until.
func FuzzItem(f *testing.F) {
	f.Add(well, byte(0))
	f.Add(well[:12], byte(0))
	f.Add([]byte{}, byte(1))
	for i := range well {
		broken := bytes.Clone(well)
		broken[i] += 3
		f.Add(broken, byte(i))
	}
	client, s := fuzzTable(f)
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		av := strangeItem(data)
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: av}); err != nil {
			t.Skip(err) // the database refuses the item
		}
		k := Key{"p", fuzzNode}
		before, corruption := s.Get(t.Context(), "p", fuzzNode)
		plausibleLease(t, before, corruption)
		g, err := s.Group(t.Context(), "p", 0)
		if err != nil || len(g.Leases)+len(g.Corrupt) != 3 || (corruption != nil) != (len(g.Corrupt) == 1) {
			t.Fatalf("%d leases, %d corrupt, %v; the item by itself: %v", len(g.Leases), len(g.Corrupt), err, corruption)
		}
		free := 0
		for _, l := range g.Leases {
			if _, ok := claimAt(k, time.UnixMilli(1795219300000)).Apply(&l); ok {
				free++
			}
		}
		if free < 2 {
			t.Errorf("of three node IDs, %d are free", free)
		}
		w := fuzzWrites(k, before)[int(which)%len(fuzzWrites(k, before))]
		res, err := s.Write(t.Context(), w)
		after, left := s.Get(t.Context(), "p", fuzzNode)
		plausibleLease(t, after, left)
		switch {
		case err != nil:
			var corrupt *CorruptError
			if corruption == nil || !errors.As(err, &corrupt) {
				t.Errorf("%T on %+v (%v): %v", w, before, corruption, err)
			}
		case corruption != nil && res.Applied && mustNotHeal(w) && !sound(av):
			t.Errorf("%T was done on an item without a sound version and reserved_until (%v), and left %+v, %v", w, corruption, after, left)
		case corruption == nil:
			want, ok := w.Apply(before)
			if !ok {
				want = *before
			}
			if ok != res.Applied || !reflect.DeepEqual(*after, want) {
				t.Errorf("%+v on %+v:\n%v, %+v\n%v, %+v is Apply's", w, before, res.Applied, after, ok, want)
			}
		}
	})
}

// sound reports whether the attributes on which the uniqueness of IDs depends are valid.
// Each claim rewrites the other attributes (task, renewal, metadata, …).
func sound(av attributes) bool {
	core := itemKey(Key{"p", fuzzNode})
	for _, name := range []string{"version", "reserved_until"} {
		if v, ok := av[name]; ok {
			core[name] = v
		}
	}
	_, err := decodeLease(Key{"p", fuzzNode}, core)
	return err == nil
}

// mustNotHeal reports whether a write relies on the item's reserved_until and version. The
// holder's own writes carry their own values, and an operator's raise is meant as a repair.
func mustNotHeal(w Write) bool {
	switch w.(type) {
	case Claim, Seed:
		return true
	}
	return false
}

func claimAt(k Key, at time.Time) Claim {
	return Claim{
		Key: k, Session: "new", Task: "t", At: at, ClaimGuard: time.Second, TTL: 15 * time.Second,
		ExpiresAt: at.Add(15 * time.Second), ReservedUntil: at.Add(16 * time.Second), Metadata: map[string]string{"zone": "a"},
	}
}

// fuzzWrites returns the writes that are tried on an item.
func fuzzWrites(k Key, l *Lease) []Write {
	if l == nil {
		l = &Lease{Holder: "me", Version: 1}
	}
	session := l.Holder
	if session == "" {
		session = "me"
	}
	now := time.UnixMilli(1795219300000)
	return []Write{
		claimAt(k, now),
		Renew{Key: k, Session: session, Version: l.Version, Renewal: l.Renewal + 1, ExpiresAt: now, ReservedUntil: now.Add(time.Second), Confirmed: l.ReservedUntil},
		Renew{Key: k, Session: session, Version: l.Version, Renewal: l.Renewal + 1, ExpiresAt: now, ReservedUntil: now.Add(time.Second), Confirmed: now, Asked: []time.Time{l.ReservedUntil}, Metadata: map[string]string{"zone": "b"}},
		Seed{Key: k, Floor: now},
		Release{Key: k, Session: session, Version: l.Version, Renewal: l.Renewal, ReservedUntil: now},
		Abandon{k, session},
		Reap{Key: k, Holder: session, Version: l.Version, Renewal: l.Renewal},
		ForceRelease{k, l.Version, session},
		FreeCopy{k, session, l.Version, l.Renewal, now},
		Retire{k, true, 1},
		Retire{k, false, 1},
		Raise{k, now},
	}
}

func plausibleLease(t *testing.T, l *Lease, err error) {
	t.Helper()
	var corrupt *CorruptError
	switch {
	case err != nil:
		if !errors.As(err, &corrupt) || corrupt.NodeID != fuzzNode {
			t.Fatalf("%v, not a *CorruptError of node %d", err, fuzzNode)
		}
	case l == nil:
		t.Fatal("the item is not there")
	case l.Version < 0, l.Renewal < 0, l.TTL < 0, l.WidenTry < 0, l.ReservedUntil.IsZero(), (l.Holder == "") != l.ExpiresAt.IsZero(), l.Holder != "" && l.NotBefore.IsZero():
		t.Fatalf("taken for a lease: %+v", l)
	}
}

// A pool's item with any content is either refused or a usable pool.
func FuzzPoolItem(f *testing.F) {
	f.Add([]byte{10, 10, 1, 10, 10, 100, 10, 10, 1, 10, 0})
	f.Add([]byte{10, 10, 1, 10, 10, 100, 10, 3, 10, 10, 99})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		av := strange(data, "item_format", "pool_size", "open_groups", "exclude_below", "created_at", "resized_at", "revision", "floor")
		p, err := decodePool("p", av)
		var corrupt *CorruptError
		if err != nil {
			if !errors.As(err, &corrupt) && !errors.Is(err, ErrItemFormat) {
				t.Errorf("%v", err)
			}
			return
		}
		low, high := p.Open()
		if low < 0 || high <= low || high > p.Size || p.Groups() < 1 || p.Groups() > MaxPoolSize/GroupSize {
			t.Errorf("%+v is open from %d to %d, in %d groups", p, low, high, p.Groups())
		}
	})
}
