package rie_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.uber.org/goleak"

	"github.com/nodelease/nodelease/functions/internal/rie"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/sources"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// binaries is the folder with the functions' binaries.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "functions"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(binaries)
		os.Exit(code)
	}))
}

// program returns the path of a function's binary, which is built once for all tests.
func program(t *testing.T, name string) string {
	t.Helper()
	sources.Of(t, "../..", "../../../pkg", "../../../internal", "../../../examples/lambda")
	binary := filepath.Join(binaries, filepath.Base(name))
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", binary, "./functions/"+name)
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// world is a built function that runs in AWS's emulator, with everything that it uses.
type world struct {
	*rie.Function
	cloud *rie.Cloud
	pool  *leasepool.Pool
	store lease.Store
	table string
	log   *syncBuffer

	emulator, binary string
	env              []string
}

// run starts a function with a table. If change is not nil, it changes the function's
// environment.
func run(t *testing.T, name string, change func(env []string) []string) *world {
	t.Helper()
	emulator, err := rie.Emulator()
	if err != nil {
		dynamotest.Missing(t, fmt.Sprintf("NOT TESTED under AWS's runtime interface emulator: %v", err))
	}
	binary := program(t, name)

	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	w := &world{store: lease.NewDynamoDB(client, table), table: table, log: &syncBuffer{}}
	w.pool = leasepool.Open(w.store, "orders")
	if w.cloud, err = rie.NewCloud(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	env := rie.Environment(endpoint(client), w.cloud.URL, table, `[{"pool":"orders","size":300,"excludeBelow":0}]`)
	if change != nil {
		env = change(env)
	}
	w.emulator, w.binary, w.env = emulator, binary, env
	if w.Function, err = rie.Start(t.Context(), emulator, binary, env, w.log); err != nil {
		t.Fatalf("%v\n%s", err, w.log)
	}
	t.Cleanup(w.Close)
	return w
}

func endpoint(c *dynamodb.Client) string { return *c.Options().BaseEndpoint }

// send sends an event: a name of a file in events/, or the event itself as JSON.
func (w *world) send(t *testing.T, event string) ([]byte, error) {
	t.Helper()
	text := []byte(event)
	if !strings.HasPrefix(event, "{") {
		var err error
		if text, err = os.ReadFile("../../../events/" + event + ".json"); err != nil {
			t.Fatal(err)
		}
	}
	text = bytes.ReplaceAll(text, []byte(`"Table": "nodelease"`), []byte(`"Table": "`+w.table+`"`))
	return w.Invoke(t.Context(), rie.Redirect(text, w.cloud.URL))
}

type syncBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	grown chan struct{} // closed by the next write; nil if no one waits
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
	return s.b.Write(p)
}

// Reset drops the logged lines.
func (s *syncBuffer) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// until waits for a text in the log. The emulator's answer may arrive before the lines that the
// function has logged earlier.
func (s *syncBuffer) until(t *testing.T, text string) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		s.mu.Lock()
		if strings.Contains(s.b.String(), text) {
			s.mu.Unlock()
			return
		}
		if s.grown == nil {
			s.grown = make(chan struct{})
		}
		grown := s.grown
		s.mu.Unlock()
		select {
		case <-grown:
		case <-patience:
			t.Fatalf("the log never contains %s:\n%s", text, s)
		}
	}
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (w *world) capacity(t *testing.T) [2]int {
	t.Helper()
	s, err := w.pool.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return [2]int{s.Capacity, s.Retired}
}

func TestBootstrapContract(t *testing.T) {
	w := run(t, "bootstrap", nil)
	for i, step := range []struct {
		event string
		want  [2]int
	}{
		{"bootstrap-create", [2]int{1024, 0}}, {"bootstrap-update", [2]int{512, 512}}, {"bootstrap-delete", [2]int{512, 512}},
	} {
		if _, err := w.send(t, step.event); err != nil {
			t.Fatalf("%v\n%s", err, w.log)
		}
		var a cfn.Response
		answers := w.cloud.Answers()
		if len(answers) != i+1 || json.Unmarshal(answers[i], &a) != nil || a.Status != cfn.StatusSuccess || !strings.HasSuffix(a.PhysicalResourceID, "/orders") {
			t.Fatalf("%s: answers %s", step.event, answers)
		}
		if got := w.capacity(t); got != step.want {
			t.Errorf("after %s: %v in use and retired, want %v", step.event, got, step.want)
		}
	}
	out, err := w.send(t, "bootstrap")
	if err != nil || !strings.Contains(string(out), `"restored":512`) {
		t.Errorf("direct: %s, %v", out, err)
	}
	if _, err := w.send(t, `{"Pool":"orders"}`); err == nil || !strings.Contains(err.Error(), "size 0") {
		t.Errorf("direct, without a size: %v", err)
	}
	w.log.until(t, `"msg":"bootstrapped","request_id":"`)
}

// A function that is not configured still starts, and reports that to CloudFormation.
func TestBootstrapContractWithoutTable(t *testing.T) {
	w := run(t, "bootstrap", func(env []string) []string {
		return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "NODELEASE_TABLE=") })
	})
	if _, err := w.send(t, "bootstrap-create"); err == nil || !strings.Contains(err.Error(), "NODELEASE_TABLE is empty") {
		t.Errorf("%v, want the failure for the alarm", err)
	}
	if a := w.cloud.Answers(); len(a) != 1 || !strings.Contains(string(a[0]), `"FAILED"`) || !strings.Contains(string(a[0]), "NODELEASE_TABLE is empty") {
		t.Errorf("answers %s", a)
	}
}

func TestReaperContract(t *testing.T) {
	w := run(t, "reaper", nil)
	if out, err := w.send(t, "reaper"); err != nil { // before the pool is seeded
		t.Fatalf("%s, %v\n%s", out, err, w.log)
	}
	ago := time.Now().Add(-5 * time.Minute)
	for _, write := range []protocol.Write{
		protocol.Seed{Key: protocol.Key{Pool: "orders", NodeID: 7}, Floor: ago.Add(-time.Minute)},
		protocol.Claim{Key: protocol.Key{Pool: "orders", NodeID: 7}, Session: "crashed", At: ago, TTL: 15 * time.Second, ExpiresAt: ago.Add(15 * time.Second), ReservedUntil: ago.Add(16 * time.Second)},
	} {
		if res, err := w.store.Write(t.Context(), write); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
	}
	if _, err := w.pool.Seed(t.Context(), leasepool.Spec{Size: 300}); err != nil {
		t.Fatal(err)
	}
	// Since no holder renews here, the lease is freed in the third scan. The results of scans
	// are kept in the table and not in the process. A run in which a request had no answer does
	// not count as a scan, and the test begins again.
	looks := []string{`"held":1,"due":[7],"freed":[],"braked":false`, `"held":1,"due":[7],"freed":[],"braked":false`, `"held":1,"due":[7],"freed":[7],"braked":false`}
	for i, void := 0, 0; i < len(looks); i++ {
		w.log.Reset()
		out, err := w.send(t, "reaper")
		if strings.Contains(w.log.String(), "a request had no answer") {
			if void++; void > 3 {
				t.Fatalf("%d runs had no answer, want at most 3\n%s", void, w.log)
			}
			i = -1
			continue
		}
		if err != nil || !strings.Contains(string(out), looks[i]) {
			t.Errorf("run %d: %s, %v, want %s\n%s", i, out, err, looks[i], w.log)
		}
		m, err := w.store.ReaperMemory(t.Context(), "orders")
		if err != nil || (m.Look == nil) != (i == 2) {
			t.Fatalf("run %d stored %+v, %v\n%s", i, m, err, w.log)
		}
		if m.Look != nil { // pretend that a minute has passed since the scan
			m.Look.Ended = m.Look.Ended.Add(-time.Minute)
			if applied, err := w.store.WriteReaperMemory(t.Context(), protocol.Remember{Pool: "orders", Seen: m.Revision, New: m.Revision + "+", Look: m.Look}); err != nil || !applied {
				t.Fatal(applied, err)
			}
		}
	}
	if l, err := w.store.Get(t.Context(), "orders", 7); err != nil || l.Holder != "" || l.Version != 1 {
		t.Errorf("got %+v, %v, want Holder empty and Version 1", l, err)
	}
}

func TestPoolmetricContract(t *testing.T) {
	w := run(t, "poolmetric", nil)
	if _, err := w.pool.Seed(t.Context(), leasepool.Spec{Size: 300}); err != nil {
		t.Fatal(err)
	}
	out, err := w.send(t, "poolmetric")
	if err != nil || !strings.Contains(string(out), `"capacity":300`) {
		t.Fatalf("%s, %v\n%s", out, err, w.log)
	}
	var want []string
	for _, gauge := range []string{"Capacity 300", "Held 0", "Free 300", "Expired 0", "Claimable 300", "Cooling 0", "Retired 0", "Corrupt 0", "Stuck 0", "Braked 0"} {
		want = append(want, "Nodelease Table="+w.table+" Pool=orders "+gauge+" Count")
	}
	want = append(want, "Nodelease Table="+w.table+" Pool=orders Utilization 0 Percent")
	if got := w.cloud.Metrics(); !slices.Equal(got, want) {
		t.Errorf("metrics %q, want %q", got, want)
	}
}

// A function that is not configured does not start, and logs the reason.
func TestScheduledContractWithoutPools(t *testing.T) {
	w := run(t, "reaper", func(env []string) []string {
		return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "NODELEASE_POOLS=") })
	})
	if out, err := w.send(t, "reaper"); err == nil {
		t.Errorf("got the answer %s", out)
	}
	w.log.until(t, "NODELEASE_POOLS")
}
