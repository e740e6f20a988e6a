package protocol_test

import (
	"errors"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// answering starts a server that sends everyone the same answer.
func answering(t *testing.T, status int, body string, headers map[string]string) *protocol.DynamoDB {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return protocol.NewDynamoDB(dynamotest.Client(t, srv.URL), "leases")
}

// genuine returns the headers that DynamoDB sends with a body.
func genuine(body string) map[string]string {
	return map[string]string{"X-Amzn-Requestid": "1", "X-Amz-Crc32": strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)}
}

// Nothing is concluded from an answer that DynamoDB would not send: neither that an item
// is missing, nor that a write was done or refused, nor that a retry would fail.
func TestAnswersWithoutMeaning(t *testing.T) {
	refusal := `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"pool_group":{"S":"orders#0"},"node_id":{"N":"0"}}}`
	other := `{"Attributes":{"pool_group":{"S":"orders#0"},"node_id":{"N":"9"}},"Item":{"pool_group":{"S":"other"},"node_id":{"N":"0"}},"Table":{}}`
	wrong := genuine("another body")
	for name, c := range map[string]struct {
		status  int
		body    string
		headers map[string]string
		reads   bool // it is a genuine answer to a read of one item
	}{
		"an empty 200":                  {status: 200},
		"braces":                        {status: 200, body: "{}"},
		"braces with a request":         {status: 200, body: "{}", headers: map[string]string{"X-Amzn-Requestid": "1"}},
		"braces with a checksum":        {status: 200, body: "{}", headers: map[string]string{"X-Amz-Crc32": genuine("{}")["X-Amz-Crc32"]}},
		"a wrong checksum":              {status: 200, body: "{}", headers: wrong},
		"a page":                        {status: 200, body: "<html>Log in</html>"},
		"other JSON":                    {status: 200, body: `{"status":"ok"}`},
		"another item, well signed":     {status: 200, body: other, headers: genuine(other)},
		"a refusal by someone else":     {status: 400, body: refusal},
		"a damaged refusal":             {status: 400, body: refusal, headers: wrong},
		"as DynamoDB, but for a writer": {status: 200, body: "{}", headers: genuine("{}"), reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			store := answering(t, c.status, c.body, c.headers)
			check := func(call string, err error) {
				t.Helper()
				var corrupt *protocol.CorruptError
				if !errors.Is(err, protocol.ErrNotDynamoDB) || protocol.Permanent(err) || errors.As(err, &corrupt) {
					t.Errorf("%s: got %v, want ErrNotDynamoDB, which another try may get over", call, err)
				}
			}
			check("Check", store.Check(t.Context()))
			_, err := store.Group(t.Context(), "orders", 0)
			check("Group", err)
			now := time.Now()
			k := protocol.Key{Pool: "orders"}
			for _, w := range []protocol.Write{
				protocol.Claim{Key: k, Session: "me", At: now, ExpiresAt: now, ReservedUntil: now},
				protocol.Renew{Key: k, Session: "me", ExpiresAt: now, ReservedUntil: now}, protocol.Release{Key: k, Session: "me", ReservedUntil: now},
			} {
				_, err := store.Write(t.Context(), w)
				check("Write", err)
			}
			_, err = store.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 2})
			check("WritePool", err)
			if l, err := store.Get(t.Context(), "orders", 0); !c.reads {
				check("Get", err)
			} else if l != nil || err != nil {
				t.Errorf("Get of a missing item: got %v, %v", l, err)
			}
			if _, err := store.PoolItem(t.Context(), "orders"); !c.reads {
				check("PoolItem", err)
			} else if !errors.Is(err, protocol.ErrPoolNotSeeded) {
				t.Errorf("PoolItem of a missing pool: got %v, want ErrPoolNotSeeded", err)
			}
		})
	}
}

// An error answer from an intermediary is returned as an error. The error is permanent
// only if the answer has AWS's code for an error that no retry fixes.
func TestErrorsOfOthers(t *testing.T) {
	for body, want := range map[string]error{"<html>Log in</html>": nil, `{"__type":"ResourceNotFoundException"}`: protocol.ErrTable} {
		_, err := answering(t, 403, body, nil).Get(t.Context(), "orders", 0)
		if err == nil || protocol.Permanent(err) != (want != nil) || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", body, err, want)
		}
	}
}

// A claim or a renewal is accepted only if the item in the answer has the requested
// values.
func TestWritesThatKeptSomethingElse(t *testing.T) {
	body := `{"Attributes":{"pool_group":{"S":"orders#0"},"node_id":{"N":"0"},"holder":{"S":"me"},"version":{"N":"1"},"renewal":{"N":"0"},` +
		`"expires_at":{"N":"1000"},"not_before":{"N":"0"},"reserved_until":{"N":"2000"}}}`
	store := answering(t, 200, body, genuine(body))
	k, at := protocol.Key{Pool: "orders"}, time.UnixMilli
	for _, c := range []struct {
		write protocol.Write
		want  bool
	}{
		{protocol.Claim{Key: k, Session: "me", ExpiresAt: at(1000), ReservedUntil: at(2000)}, true},
		{protocol.Claim{Key: k, Session: "other", ExpiresAt: at(1000), ReservedUntil: at(2000)}, false},
		{protocol.Claim{Key: k, Session: "me", ExpiresAt: at(1000), ReservedUntil: at(2001)}, false},
		{protocol.Renew{Key: k, Session: "me", Version: 1, ExpiresAt: at(1000), ReservedUntil: at(2000)}, true},
		{protocol.Renew{Key: k, Session: "me", Version: 1, Renewal: 1, ExpiresAt: at(1000), ReservedUntil: at(2000)}, false},
		{protocol.Renew{Key: k, Session: "me", Version: 1, ExpiresAt: at(1001), ReservedUntil: at(2000)}, false},
	} {
		res, err := store.Write(t.Context(), c.write)
		if res.Applied != c.want || errors.Is(err, protocol.ErrNotDynamoDB) == c.want {
			t.Errorf("%+v: got %+v, %v, want applied: %v", c.write, res, err, c.want)
		}
	}
}
