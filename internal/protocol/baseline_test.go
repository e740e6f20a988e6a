package protocol_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

var update = flag.Bool("update", false, "record the requests of the item format as they are now, beside those recorded before")

// recording is one step of the story: the request as it was sent, whether its condition held, and the item after it.
type recording struct {
	Step    string         `json:"step"`
	Request map[string]any `json:"request"`
	Applied bool           `json:"applied"`
	Item    map[string]any `json:"item"`
}

// recordings returns the recordings of one item format, oldest first. Each was recorded from a release, or from a state of this
// repository before the first release, and stays as long as that release may share a pool with this one.
func recordings(t *testing.T) (files []string, all [][]recording) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", fmt.Sprintf("format-%d", protocol.ItemFormat), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var one []recording
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, one)
	}
	return files, all
}

// exchange forwards requests and records the writes. If it has a request of an older
// release, it sends that request instead.
type exchange struct {
	http.RoundTripper
	table string
	old   map[string]any // the request to be sent instead; nil: none
	last  recording
}

func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		return x.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	x.last.Request = nil
	if err := json.Unmarshal(body, &x.last.Request); err != nil {
		return nil, err
	}
	x.last.Request["TableName"] = "TABLE"
	sent := maps.Clone(x.last.Request)
	if x.old != nil {
		sent = maps.Clone(x.old)
	}
	sent["TableName"] = x.table
	if body, err = json.Marshal(sent); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res, err := x.RoundTripper.RoundTrip(r)
	x.last.Applied = err == nil && res.StatusCode == http.StatusOK
	return res, err
}

// tell runs the story on an empty table. If old returns a recording for a step, the request of that recording is sent instead.
func tell(t *testing.T, old func(i int, step string) *recording) (told []recording) {
	t.Helper()
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	options := client.Options()
	inner, ok := options.HTTPClient.(*http.Client)
	if !ok {
		t.Fatalf("the client's HTTPClient is a %T", options.HTTPClient)
	}
	x := &exchange{RoundTripper: inner.Transport, table: table}
	options.HTTPClient = &http.Client{Transport: x}
	store := protocol.NewDynamoDB(dynamodb.New(options), table)
	for i, step := range story() {
		x.old, x.last = nil, recording{Step: step.name}
		if r := old(i, step.name); r != nil {
			x.old = r.Request
		}
		if err := step.write(t.Context(), store); err != nil {
			t.Fatalf("%s: this release does not understand the answer: %v", step.name, err)
		}
		if x.last.Request == nil {
			t.Fatalf("%s sent no UpdateItem", step.name)
		}
		x.last.Item = itemOf(t, client, table, x.last.Request["Key"])
		told = append(told, x.last)
	}
	return told
}

// itemOf reads an item as DynamoDB sends it, without this module's code.
func itemOf(t *testing.T, client *dynamodb.Client, table string, key any) map[string]any {
	t.Helper()
	body, err := json.Marshal(map[string]any{"TableName": table, "Key": key, "ConsistentRead": true})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, *client.Options().BaseEndpoint, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	res, err := client.Options().HTTPClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct{ Item map[string]any }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("reading %v: %s, %v", key, res.Status, err)
	}
	return answer.Item
}

// The newest recording has the requests of this release. -update adds a recording, and
// keeps the earlier ones.
func TestRequestsAreRecorded(t *testing.T) {
	told := tell(t, func(int, string) *recording { return nil })
	files, all := recordings(t)
	if len(all) > 0 && reflect.DeepEqual(all[len(all)-1], told) {
		return
	}
	if !*update {
		for i, now := range told {
			if len(all) == 0 || i >= len(all[len(all)-1]) || !reflect.DeepEqual(all[len(all)-1][i], now) {
				text, _ := json.MarshalIndent(now, "", "  ")
				t.Fatalf("step %q is not as recorded; now it is\n%s\nIf that is meant, run go test ./internal/protocol -run TestRequestsAreRecorded -update, and add a line to CHANGELOG.md", now.Step, text)
			}
		}
		t.Fatalf("the story has %d steps, the newest recording more", len(told))
	}
	text, err := json.MarshalIndent(told, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("testdata", fmt.Sprintf("format-%d", protocol.ItemFormat), fmt.Sprintf("%03d.json", len(files)+1))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded %s", name)
}

// The requests of each recording work on items that this release writes, and the requests
// of this release work on items of the recording. In every mixture of the two, each
// condition decides as it does in a pool with one release, this release reads every answer,
// and attributes that both releases would leave equal are equal.
func TestRecordedRequestsShareAPool(t *testing.T) {
	files, all := recordings(t)
	if len(all) == 0 {
		t.Fatal("nothing is recorded: run go test ./internal/protocol -run TestRequestsAreRecorded -update")
	}
	alone := tell(t, func(int, string) *recording { return nil })
	for f, old := range all {
		recorded := func(step string) *recording {
			if i := slices.IndexFunc(old, func(r recording) bool { return r.Step == step }); i >= 0 {
				return &old[i]
			}
			return nil // a write that is newer than the recording
		}
		for name, sends := range map[string]func(i int) bool{
			"old only":         func(int) bool { return true },
			"old, then new":    func(i int) bool { return i%2 == 0 },
			"new, then old":    func(i int) bool { return i%2 == 1 },
			"two old, two new": func(i int) bool { return i%4 < 2 },
			"one old of three": func(i int) bool { return i%3 == 0 },
		} {
			t.Run(filepath.Base(files[f])+" "+name, func(t *testing.T) {
				told := tell(t, func(i int, step string) *recording {
					if sends(i) {
						return recorded(step)
					}
					return nil
				})
				for i, got := range told {
					was := recorded(got.Step)
					if was == nil {
						continue
					}
					if got.Applied != was.Applied || got.Applied != alone[i].Applied {
						t.Fatalf("%s: applied is %v; recorded %v, with this release alone %v", got.Step, got.Applied, was.Applied, alone[i].Applied)
					}
					for key, value := range was.Item {
						if reflect.DeepEqual(value, alone[i].Item[key]) && !reflect.DeepEqual(value, got.Item[key]) {
							t.Errorf("%s: %s is %v, want %v as either release leaves it", got.Step, key, got.Item[key], value)
						}
					}
				}
			})
		}
	}
}
