package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/text/texttest"
)

// The tester is an attacker who may write every attribute of every item of a pool, and who
// controls the network between an operator and the endpoint.

const (
	// mostMemory is the limit of one command's memory, in kilobytes.
	mostMemory = 200 << 10
	// longest is the time after which a command is considered to hang. It is much longer
	// than the commands' own time-outs, since the machine may be loaded.
	longest = 5 * time.Minute
)

// everything reports whether NODELEASE_TESTER is "all". If so, the tests try the whole
// corpus on more commands, which takes many minutes. If NODELEASE_TESTER is neither "all"
// nor "hostile", the tests that take minutes try only a quarter of their values.
var (
	tester     = os.Getenv("NODELEASE_TESTER")
	everything = tester == "all"
)

// quarter returns a quarter of the values, the same in each run. In make proof it returns
// all.
func quarter[V any](all map[string]V) map[string]V {
	if everything || tester == "hostile" {
		return all
	}
	share := map[string]V{}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%4 == 0 {
			share[name] = all[name]
		}
	}
	return share
}

// raceMemory is the factor by which the race detector increases the use of memory.
var raceMemory int64 = 1

// items returns one item of each kind, as Nodelease writes them.
func items(now time.Time) map[string]map[string]any {
	return map[string]map[string]any{
		"lease": number(1, now.Add(1000*time.Hour), map[string]any{"metadata": map[string]any{"key": "v"}, "widen_try": 0, "resize": 0, "taken_from": "t", "on_demand": false,
			"previous": map[string]any{"session": "s", "version": 2, "ended": "released"}}),
		"pool": {"pool_group": "orders", "node_id": -1, "item_format": 2, "pool_size": 8, "open_groups": 1, "exclude_below": 0, "created_at": 1, "resized_at": 1,
			"revision": 3, "floor": 1, "expect": 4, "verdict": map[string]any{"region": "r", "at": 1, "by": "b", "safe": true}, "measured": map[string]any{"held": 1, "cooling": 0, "at": 1}},
		"memory":     {"pool_group": "orders#reaper", "node_id": 0, "revision": "r", "looked_at": now.UnixMilli(), "look_wait": 1000, "look_count": 1, "look_held": 2, "look_braked": false, "candidates": ""},
		"watermarks": {"pool_group": "orders#reaper", "node_id": 1, "watermarks": "1.1.1"},
		"pool mark":  {"pool_group": "orders#reaper", "node_id": -1, "watermarks": "1 1 0"},
		"digest":     {"pool_group": "orders#digest", "node_id": 0, "beat": 1, "members": "x", "written_at": now.UnixMilli(), "session_id": "s", "parts": "", "copies": 1, "claimed_by": "c"},
		"node":       {"pool_group": "orders#node", "node_id": 7, "heartbeat_at": now.UnixMilli(), "member_name": "m", "metadata": map[string]any{"k": "v"}, "session_id": "s", "version": 1},
		"known":      {"pool_group": "orders#known", "node_id": 1, "member_key": "k", "known": map[string]any{"1": 1}, "version": 3, "revision": 1, "published_at": now.UnixMilli()},
		"service":    {"pool_group": "orders#svc#api", "node_id": 1, "version": 3, "revision": 1, "holder": "session1", "addresses": map[string]any{"host": "10.0.0.1", "zone": "a", "labels": map[string]any{"k": "v"}}},
		"shared":     {"pool_group": "orders#svc#api", "node_id": -1, "version": 3, "revision": 0, "leases": map[string]any{}, "read_at": 1},
		"registered": {"pool_group": "orders#registered", "node_id": 1, "version": 3, "revision": 1, "holder": "session1", "places": []string{"svc#api"}},
		"index":      {"pool_group": "#pools", "node_id": 7, "pool_name": "orders"},
		"new":        {"pool_group": "orders#0", "node_id": 77, "unknown": 1},
		"foreign":    {"pool_group": "orders#0", "node_id": 7777, "unknown": 1},
	}
}

// forgeries returns values of every type that an attribute can have, with texts of the
// corpus.
func forgeries() map[string]any {
	all := map[string]any{
		"a huge number": 1e38, "a negative number": -1, "the year 9999": int64(253402300799999),
		"true": true, "empty": "", "a map": map[string]any{"a": map[string]any{"__proto__": "x"}}, "a command": "$(touch here)`touch here`;touch here\n'touch here'|touch here",
	}
	if everything {
		maps.Copy(all, map[string]any{"a fraction": 0.5, "more than ever": int64(1) << 53, "zero": 0, "a list": []any{"a", 1}, "a deep map": deep(30)})
	}
	for name, value := range texttest.Hostile {
		if everything || slices.Contains([]string{"csi clear", "newline", "long"}, name) {
			value = strings.ToValidUTF8(value, "\ufffd")
			all[name] = value[:min(len(value), 390_000)]
		}
	}
	return all
}

func deep(n int) any {
	if n == 0 {
		return "x"
	}
	return map[string]any{"m": deep(n - 1)}
}

// tested creates a pool with an item of each kind, and with node 5. The tester does not
// change node 5, and the tests check what the commands show about it.
func tested(t *testing.T) (*ward, map[string]map[string]any, []string) {
	t.Helper()
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 8)
	now := time.Now()
	all := items(now)
	for _, item := range all {
		w.put(item)
	}
	w.put(number(5, now.Add(1000*time.Hour), map[string]any{"metadata": map[string]any{"zone": "a"}}))
	w.put(map[string]any{"pool_group": "orders#svc#api", "node_id": 5, "version": 3, "revision": 1, "holder": "session5", "addresses": map[string]any{"host": "10.0.0.5"}})
	w.put(map[string]any{"pool_group": "orders#registered", "node_id": 5, "version": 3, "revision": 1, "holder": "session5", "places": []string{"svc#api"}})
	return w, all, []string{"--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders"}
}

// Whatever value the tester gives an attribute, no command changes what it shows about
// another node ID, prints a control character, or runs a program.
func TestEveryAttribute(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many commands on many tables")
	}
	w, items, flags := tested(t)
	looks := []string{"list --json", "inspect 5", "doctor", "resolve api"}
	if everything {
		looks = append(looks, "services", "inspect 1", "list -o wide", "stats", "pools", "reap --dry-run", "release 5 --version 3 --dry-run", "watch --for 1ms --plain")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	want := map[string]string{}
	for _, line := range looks {
		want[line] = shown(line, "", flags)
	}
	about5, at5 := node5(want["list --json"]), line5(want["resolve api"])
	if about5 == nil || at5 == "" {
		t.Fatalf("node 5 is not listed: %s, %s", want["list --json"], want["resolve api"])
	}
	values := quarter(forgeries())
	for _, kind := range slices.Sorted(maps.Keys(items)) {
		for _, attribute := range append(slices.Sorted(maps.Keys(items[kind])), "unknown") {
			if attribute == "pool_group" || attribute == "node_id" {
				continue // part of the key: a different value would make another item
			}
			for name, value := range values {
				item := maps.Clone(items[kind])
				item[attribute] = value
				where := fmt.Sprintf("%s.%s = %s", kind, attribute, name)
				w.put(item)
				for _, line := range looks {
					if line == "doctor" && !everything && name != "csi clear" && name != "a huge number" {
						continue
					}
					output := shown(line, "", flags)
					if err := texttest.Check(output, false, 0); err != nil {
						t.Errorf("%s, %s: %v", where, line, err)
					}
					switch {
					case kind == "pool" && attribute != "unknown":
						// The output about the pool itself may change, and with it which node IDs are in use.
					case line == "list --json" && !reflect.DeepEqual(node5(output), about5):
						t.Errorf("%s: node 5 is shown as %v, want %v", where, node5(output), about5)
					case line == "inspect 5" && facts(output, "") != facts(want[line], ""):
						t.Errorf("%s: inspect 5 shows %s, want %s", where, output, want[line])
					case line == "resolve api" && line5(output) != at5:
						t.Errorf("%s: resolve shows %s, want %s", where, output, want[line])
					}
				}
			}
			w.put(items[kind])
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("a command left %v, %v", files, err)
	}
}

// node5 returns node 5 from the output of list --json.
func node5(output string) map[string]any {
	output, _, _ = strings.Cut(output, "-- stderr --")
	var all struct {
		Nodes []map[string]any `json:"nodes"`
	}
	if json.Unmarshal([]byte(output), &all) != nil {
		return nil
	}
	for _, n := range all.Nodes {
		if n["node_id"] == 5.0 {
			return n
		}
	}
	return nil
}

// line5 returns the line about the instance that node 5 registered.
func line5(output string) string {
	for line := range strings.Lines(output) {
		if strings.Contains(line, "10.0.0.5") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return ""
}

// child runs a command as a program, and judges its time and memory.
func child(t *testing.T, what, line string, flags []string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	peak := filepath.Join(t.TempDir(), "peak")
	cmd := exec.CommandContext(ctx, self, append(words(line), flags...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", peakFile+"="+peak)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Errorf("%s, %s: %v, %v", what, line, err, ctx.Err())
		return ""
	}
	if code := cmd.ProcessState.ExitCode(); code < 0 || code > 7 {
		t.Errorf("%s, %s: exit code %d, want 0 to 7: %.2000s", what, line, code, output)
	}
	status, _ := os.ReadFile(peak)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kb int64
	if _, err := fmt.Sscan(after, &kb); err != nil {
		t.Errorf("%s, %s: the kernel does not report its memory: %v", what, line, err)
	}
	t.Logf("%s, %s: %d MB, %v", what, line, kb>>10, cmd.ProcessState.UserTime().Round(time.Millisecond))
	if kb > mostMemory*raceMemory {
		t.Errorf("%s, %s: %d MB, want at most %d", what, line, kb>>10, mostMemory*raceMemory>>10)
	}
	if err := texttest.Check(string(output), false, 0); err != nil {
		t.Errorf("%s, %s: %v", what, line, err)
	}
	return string(output)
}

// heavyItems returns values that are too long, or have too many parts, as JSON, in each
// form that an item can have.
func heavyItems() map[string]types.AttributeValue {
	repeat := func(n int, one types.AttributeValue) types.AttributeValue {
		all := make([]types.AttributeValue, n)
		for i := range all {
			all[i] = one
		}
		return &types.AttributeValueMemberL{Value: all}
	}
	return map[string]types.AttributeValue{
		"a long text": &types.AttributeValueMemberS{Value: strings.Repeat("\x01", 380_000)},
		"empty texts": repeat(60_000, &types.AttributeValueMemberS{}),
		"numbers":     repeat(20_000, &types.AttributeValueMemberN{Value: "1e125"}),
	}
}

// In a pool whose items are as large as possible, no command uses more than 200 MB, and
// node 5 is shown unchanged.
func TestLargestItems(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred megabytes of items")
	}
	for name, value := range quarter(heavyItems()) {
		t.Run(name, func(t *testing.T) {
			w, items, flags := tested(t)
			fill := func(partition string, attribute string, from, n int) {
				for i := from; i < from+n; i++ {
					if i == 5 {
						continue
					}
					item := map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: partition}, "node_id": &types.AttributeValueMemberN{Value: fmt.Sprint(i)}, attribute: value}
					if _, err := w.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: item}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for kind, item := range items { // add a large attribute to each item
				if kind == "pool" {
					continue // without this item there is no pool
				}
				av, err := attributevalue.MarshalMap(item)
				if err != nil {
					t.Fatal(err)
				}
				av["unknown"] = value
				if _, err := w.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: av}); err != nil {
					t.Fatal(err)
				}
			}
			fill("orders#0", "metadata", 0, 3)
			fill("orders#0", "unknown", 256, 3)
			fill("orders#svc#api", "addresses", 8, 3)
			fill("orders#registered", "places", 8, 3)
			fill("orders#reaper", "watermarks", 2, 1)
			fill("orders#known", "known", 2, 1)
			fill("#pools", "pool_name", 0, 1)
			for _, line := range []string{"list --json", "list -o wide", "inspect 1", "inspect 5", "doctor", "services", "resolve api", "stats", "reap --dry-run", "pools", "watch --for 1ms --plain"} {
				output := child(t, name, line, append(slices.Clone(flags), "--timeout", "2m"))
				switch line {
				case "list --json":
					if node5(output) == nil {
						t.Errorf("node 5 is not listed: %.2000s", output)
					}
				case "inspect 5":
					if !strings.Contains(output, "session5") {
						t.Errorf("inspect 5: want its session, got %.2000s", output)
					}
				case "resolve api":
					if line5(output) == "" {
						t.Errorf("resolve: want node 5, got %.2000s", output)
					}
				}
			}
		})
	}
}

// An attacker between an operator and the endpoint can make a command fail, but nothing
// else. Endless answers, compression bombs and garbage cost a bounded amount of time and
// memory.
func TestHostileNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("reads many megabytes")
	}
	t.Parallel()
	chunk := strings.Repeat(`{"Items":[`, 100_000)
	forever := func(status int, head, text string) http.HandlerFunc {
		text = strings.Repeat(text, 1+100_000/len(text))
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amzn-Requestid", "1")
			w.Header().Set("X-Amz-Crc32", "1")
			w.WriteHeader(status)
			_, err := io.WriteString(w, head)
			for err == nil && r.Context().Err() == nil {
				_, err = io.WriteString(w, text)
			}
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"levels":            forever(200, "", `{"Items":[`),
		"items":             forever(200, `{"Items":[{`, `"node_id":{"N":"1"},"pool_group":{"S":"orders#0"}},{`),
		"attributes":        forever(200, `{"Items":[{`, `"x":{"S":""},`),
		"a text":            forever(200, `{"Item":{"x":{"S":"`, "x"),
		"an error":          forever(500, `{"message":"`, "x"),
		"a refusal":         forever(400, `{"__type":"ConditionalCheckFailedException","message":"`, "x"),
		"a list of numbers": forever(200, `{"Table":{"x":[`, "1,"),
		"long enough": func(w http.ResponseWriter, _ *http.Request) {
			for range 33 {
				_, _ = io.WriteString(w, chunk)
			}
		},
		"many headers": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20_000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
			}
		},
		"another place": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/\x1b[2J")
			w.WriteHeader(307)
		},
		"nothing": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after it has read the body
			<-r.Context().Done()
		},
		"pages":    pagesForever,
		"gzip":     gzipped,
		"one byte": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			defer server.Close()
			defer server.CloseClientConnections()
			for _, line := range []string{"list", "doctor", "resolve api"} {
				child(t, name, line, []string{"--endpoint", server.URL, "--table", "tab", "--pool", "orders", "--timeout", "1s"})
			}
		})
	}
}

// pagesForever answers each request with a page of items that is followed by another page,
// with a valid checksum.
func pagesForever(w http.ResponseWriter, r *http.Request) {
	body := []byte(`{"Count":0,"Items":[` + strings.Repeat(`{"pool_group":{"S":"orders#0"},"node_id":{"N":"0"}},`, 5000) + `{}],"LastEvaluatedKey":{"pool_group":{"S":"orders#0"},"node_id":{"N":"0"}}}`)
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "GetItem") {
		body = []byte(`{"Item":{"pool_group":{"S":"orders"},"node_id":{"N":"-1"},"item_format":{"N":"2"},"pool_size":{"N":"65536"},"open_groups":{"N":"256"},"revision":{"N":"1"},"floor":{"N":"0"}}}`)
	}
	w.Header().Set("X-Amzn-Requestid", "1")
	w.Header().Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE(body)))
	_, _ = w.Write(body)
}

// gzipped answers with a few bytes that unpack to a gigabyte.
func gzipped(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("X-Amzn-Requestid", "1")
	w.Header().Set("X-Amz-Crc32", "1")
	bombOnce.Do(func() {
		z := gzip.NewWriter(&bomb)
		chunk := []byte(strings.Repeat(`{"Items":[`, 100_000))
		for range 1000 {
			_, _ = z.Write(chunk)
		}
		_ = z.Close()
	})
	_, _ = w.Write(bomb.Bytes())
}

var (
	bombOnce sync.Once
	bomb     bytes.Buffer
)
