package embeddeddb

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// call makes one call without a network.
func call(s *Server, operation, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const createLeases = `{"TableName":"leases","BillingMode":"PAY_PER_REQUEST",
	"AttributeDefinitions":[{"AttributeName":"pool_group","AttributeType":"S"},{"AttributeName":"node_id","AttributeType":"N"}],
	"KeySchema":[{"AttributeName":"pool_group","KeyType":"HASH"},{"AttributeName":"node_id","KeyType":"RANGE"}]}`

// claim is the request of a claim, the longest of the product's writes.
const claim = `{"TableName":"leases","Key":{"pool_group":{"S":"p#0"},"node_id":{"N":"7"}},
	"UpdateExpression":"SET holder=:me, task=:t, version=if_not_exists(version,:zero)+:one, renewal=:zero, lease_ms=:l, expires_at=:e, not_before=if_not_exists(reserved_until,:zero), reserved_until=:r, metadata=:m",
	"ConditionExpression":"attribute_not_exists(retired) AND (attribute_not_exists(widen_try) OR widen_try <= :zero) AND (attribute_not_exists(holder) OR expires_at < :n) AND (attribute_not_exists(reserved_until) OR reserved_until <= :n)",
	"ExpressionAttributeValues":{":me":{"S":"01890a5d-ac96-774b-bcce-b302099a8057"},":t":{"S":"arn:aws:ecs:us-east-1:000000000000:task/cluster/0123456789abcdef"},
		":zero":{"N":"0"},":one":{"N":"1"},":l":{"N":"15000"},":e":{"N":"1790000015000"},":r":{"N":"1790000016000"},":n":{"N":"1790000016001"},":m":{"M":{"zone":{"S":"a"}}}},
	"ReturnValues":"ALL_NEW","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`

func BenchmarkClaim(b *testing.B) {
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	if w := call(s, "CreateTable", createLeases); w.Code != http.StatusOK {
		b.Fatal(w.Body)
	}
	b.ReportAllocs()
	for b.Loop() {
		if w := call(s, "UpdateItem", claim); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkHTTP claims over loopback connections; server and clients share the machine.
func BenchmarkHTTP(b *testing.B) {
	for _, clients := range []int{1, 64} {
		for _, data := range []string{"", filepath.Join(b.TempDir(), "data")} {
			b.Run(fmt.Sprintf("clients=%d/data=%t", clients, data != ""), func(b *testing.B) {
				s, err := New(Options{Data: data})
				if err != nil {
					b.Fatal(err)
				}
				endpoint, err := s.Listen("127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				call(s, "CreateTable", createLeases)
				transport := &http.Transport{MaxIdleConnsPerHost: clients}
				defer transport.CloseIdleConnections()
				b.SetParallelism(max(1, clients/runtime.GOMAXPROCS(0)))
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						r, _ := http.NewRequest(http.MethodPost, endpoint, strings.NewReader(claim))
						r.Header.Set("Content-Type", "application/x-amz-json-1.0")
						r.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
						w, err := transport.RoundTrip(r)
						if err != nil {
							b.Error(err)
							return
						}
						io.Copy(io.Discard, w.Body)
						w.Body.Close()
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			})
		}
	}
}
