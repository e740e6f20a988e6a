package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sys/unix"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/ui"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/dynamocoordinator"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// recorded answers a request that it has already seen with the server's earlier answer, so
// that a reader is measured without the cost of a server in the same process.
type recorded struct {
	server  dynamodb.HTTPClient
	mu      sync.Mutex
	answers map[string]*reply
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

// Do implements [dynamodb.HTTPClient].
func (r *recorded) Do(req *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	asked := req.Header.Get("X-Amz-Target")
	var write struct{ Key, ExpressionAttributeValues map[string]any }
	if err := json.Unmarshal(sent, &write); err != nil {
		return nil, err
	}
	if write.Key != nil && write.ExpressionAttributeValues != nil { // the times in a write differ each time
		asked += fmt.Sprint(write.Key)
	} else {
		asked += string(sent)
	}
	r.mu.Lock()
	a := r.answers[asked]
	r.mu.Unlock()
	if a == nil {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(sent))
		res, err := r.server.Do(again)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		a = &reply{res.StatusCode, res.Header, body}
		r.mu.Lock()
		r.answers[asked] = a
		r.mu.Unlock()
	}
	header := a.header.Clone()
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat)) // readers compare their clock with this date
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req}, nil
}

// large reports whether an answer has a large item.
func (r *recorded) large() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		if len(a.body) > 100_000 {
			return true
		}
	}
	return false
}

func (r *recorded) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.answers)
}

// largest returns the values that cost a reader the most: one that is larger than the part
// of an item that readers read, and two just below the limits, one in bytes and one in the
// number of parts.
func largest() map[string]types.AttributeValue {
	all := map[string]types.AttributeValue{"more than is read": heavyItems()["empty texts"]}
	empty := make([]types.AttributeValue, 32_000)
	for i := range empty {
		empty[i] = &types.AttributeValueMemberS{}
	}
	all["as many texts as are read"] = &types.AttributeValueMemberL{Value: empty}
	all["as long as is read"] = &types.AttributeValueMemberS{Value: strings.Repeat("\x01", 170_000)}
	return all
}

// costPlaces are the items to enlarge, one of each kind, and the attributes to set in each.
var costPlaces = []struct {
	partition, node string
	attributes      []string
}{
	{"orders#0", "1", []string{"metadata", "task", "unknown"}}, {"orders#reaper", "1", []string{"watermarks"}}, {"orders#reaper", "0", []string{"candidates"}},
	{"orders#digest", "0", []string{"parts", "unknown"}}, {"orders#node", "7", []string{"metadata"}}, {"orders#known", "1", []string{"known"}},
	{"orders#svc#api", "1", []string{"addresses"}}, {"orders#svc#api", "-1", []string{"leases"}}, {"orders#registered", "1", []string{"places"}}, {"#pools", "7", []string{"pool_name"}},
}

// itemAt returns the item with a key or, if all has none, an item that is only the key.
func itemAt(all map[string]map[string]any, partition string, node int) map[string]any {
	for _, item := range all {
		if item["pool_group"] == partition && item["node_id"] == node {
			return item
		}
	}
	return map[string]any{"pool_group": partition, "node_id": node}
}

// costReaders returns the readers. Each returns what it keeps in memory after a read.
func costReaders(t *testing.T, client *dynamodb.Client, table string) map[string]func() any {
	t.Helper()
	store := lease.NewDynamoDB(client, table)
	pool := leasepool.Open(store, "orders")
	directory := func(alone bool) *discovery.Directory {
		d, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(client, table), Logger: slog.New(slog.DiscardHandler), Alone: alone})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ctx := t.Context()
	must := func(v any, err error) any {
		if err != nil {
			t.Error(err)
		}
		return v
	}
	resolve := func(alone bool) func() any {
		return func() any {
			lookup, err := directory(alone).Service("api")
			if err != nil {
				t.Fatal(err)
			}
			return must(lookup.Resolve(ctx))
		}
	}
	return map[string]func() any{
		"list": func() any {
			item, err := store.PoolItem(ctx, "orders")
			if err != nil {
				t.Fatal(err)
			}
			l, err := look(ctx, pool, item)
			if err != nil {
				t.Fatal(err)
			}
			for _, as := range []form{{}, {json: true}} {
				if err := as.write(io.Discard, l, filter{sort: "node"}); err != nil {
					t.Fatal(err)
				}
			}
			return l
		},
		"inspect": func() any { // returns an error if the item is corrupt
			l, err := store.Get(ctx, "orders", 1)
			return []any{l, err}
		},
		"agent's search":   func() any { return must(store.Group(ctx, "orders", 0)) },
		"reaper, doctor":   func() any { return must(pool.Due(ctx)) },
		"poolmetric":       func() any { return must(pool.Stats(ctx)) },
		"discovery":        resolve(false),
		"resolve":          resolve(true),
		"list of services": func() any { return must(directory(true).Services().List(ctx)) },
		"cluster": func() any {
			beats := dynamocoordinator.New(client, table)
			self := cluster.Member{Cluster: "orders", Name: "m", NodeID: 5, SessionID: "s", Version: 1}
			var snaps []any
			for range 2 { // the first round only starts a clock
				snaps = append(snaps, must(beats.Heartbeat(ctx, cluster.Beat{Self: self, At: time.Now(), Timeout: time.Minute})))
			}
			return snaps
		},
		"page": func() any {
			l, err := ui.Listen("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			page := ui.New(ui.Options{Source: store, Pool: "orders", Every: time.Hour, Directory: directory(true)})
			ctx, cancel := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- page.Serve(ctx, l) }()
			defer func() { cancel(); <-done }()
			firstEvent(t, l.Addr())
			return page
		},
	}
}

// firstEvent waits until the page has received the whole pool.
func firstEvent(t *testing.T, at net.Addr) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.String()+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var read []byte
	chunk := make([]byte, 4096)
	for !bytes.Contains(read, []byte("\ndata: ")) {
		n, err := res.Body.Read(chunk)
		if read = append(read, chunk[:n]...); err != nil {
			t.Fatal(err)
		}
	}
}

// used returns the processor time that this process has used so far, on all processors.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// took returns the processor time of a read. It returns the shortest time of at least three
// reads, since other programs use the processors, too. While the shortest time is above
// limit, took reads again, up to 25 times in all.
func took(t *testing.T, limit time.Duration, read func() any) (best time.Duration) {
	t.Helper()
	best = time.Hour
	for round := 0; round < 3 || round < 25 && best > limit; round++ {
		began := used(t)
		read()
		best = min(best, used(t)-began)
	}
	return best
}

// aLook returns the time of one pass over 3 MB of JSON, which is the largest JSON that one
// item can have. The test uses this time to allow for a machine that is slow or busy.
func aLook(t *testing.T) time.Duration {
	text := []byte("[" + strings.Repeat(`{"BOOL":true},`, 3<<20/14) + "0]")
	return took(t, 0, func() any { return json.Valid(text) })
}

// keeps returns how much memory stays in use after a read. While the result is above limit,
// keeps reads again, up to ten times in all, and returns the smallest result.
func keeps(limit int64, read func() any) (least int64) {
	least = 1 << 40
	for round := 0; round < 1 || round < 10 && least > limit; round++ {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := read()
		runtime.GC()
		runtime.ReadMemStats(&after)
		least = min(least, int64(after.HeapAlloc)-int64(before.HeapAlloc))
		runtime.KeepAlive(kept)
	}
	return least
}

// Whatever one item contains, no reader spends more than 50 ms of processor time on it (on
// a slow machine, the time of five passes over its JSON), and no reader keeps more than 1
// MB of it in memory.
func TestWhatOneItemCostsAReader(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads many large items")
	}
	limit := max(50*time.Millisecond, 5*aLook(t)) * time.Duration(raceMemory*raceMemory) // more with the race detector
	w, all, _ := tested(t)
	replayed := func() (*recorded, map[string]func() any) {
		replay := &recorded{server: w.Options().HTTPClient, answers: map[string]*reply{}}
		return replay, costReaders(t, dynamodb.New(w.Options(), func(o *dynamodb.Options) { o.HTTPClient = replay }), w.table)
	}
	usual := map[string]int64{} // the memory that a reader keeps for usual items
	_, readers := replayed()
	for who, read := range readers {
		read()
		usual[who] = keeps(0, read)
	}
	worst := map[string]time.Duration{}
	for _, place := range costPlaces {
		node, err := strconv.Atoi(place.node)
		if err != nil {
			t.Fatal(err)
		}
		for _, attribute := range place.attributes {
			for name, value := range quarter(largest()) {
				item, err := attributevalue.MarshalMap(itemAt(all, place.partition, node)) // the other attributes stay as usual
				if err != nil {
					t.Fatal(err)
				}
				item[attribute] = value
				if _, err := w.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: item}); err != nil {
					t.Fatal(err)
				}
				replay, readers := replayed()
				for who, read := range readers {
					replay.forget()
					read() // to record the answers
					if !replay.large() {
						continue // this reader does not read the item
					}
					cpu, stays := took(t, limit, read), keeps(1<<20+usual[who], read)-usual[who]
					worst[who] = max(worst[who], cpu)
					if cpu > limit || stays > 1<<20 {
						t.Errorf("%s, %s of node %s of %s: %s took %v and kept %d KB, want at most %v and 1 MB", name, attribute, place.node, place.partition, who, cpu, stays>>10, limit)
					}
				}
			}
			w.put(itemAt(all, place.partition, node))
		}
	}
	for who, cpu := range worst {
		t.Logf("%s: at most %v", who, cpu.Round(time.Millisecond))
	}
	if len(worst) < 10 {
		t.Errorf("only %d readers met a large item: %v", len(worst), worst)
	}
}
