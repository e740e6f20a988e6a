package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/goleak"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event returns a file of events/, with CloudFormation's address replaced by url.
func event(t *testing.T, name, url string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile("../../../events/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if _, ok := fields["ResponseURL"]; ok {
		fields["ResponseURL"] = url
	}
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return text
}

// cloudformation is a server that receives the answers of custom resources.
type cloudformation struct {
	*httptest.Server
	answers chan cfn.Response
}

func newCloudformation(t *testing.T) *cloudformation {
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1") // with an emulator, answers may go to this machine
	c := &cloudformation{answers: make(chan cfn.Response, 10)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var answer cfn.Response
		if err != nil || r.Method != http.MethodPut || len(body) > 4096 || json.Unmarshal(body, &answer) != nil {
			t.Errorf("%s with %d bytes: %v", r.Method, len(body), err)
		}
		c.answers <- answer
	}))
	t.Cleanup(func() {
		c.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return c
}

// answer returns the answer to the last event, and fails unless there is exactly one.
func (c *cloudformation) answer(t *testing.T) cfn.Response {
	t.Helper()
	if n := len(c.answers); n != 1 {
		t.Fatalf("%d answers, want one", n)
	}
	return <-c.answers
}

// logs collects the structured logs of a test.
func logs(t *testing.T) func() string {
	var mu sync.Mutex
	var buffer bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(locked{&mu, &buffer}, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return buffer.String()
	}
}

type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// meddled is a store whose calls a test can intercept.
type meddled struct {
	lease.Store
	group func(ctx context.Context, pool string, n int) error
}

func (s meddled) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	if err := s.group(ctx, pool, n); err != nil {
		return protocol.Group{}, err
	}
	return s.Store.Group(ctx, pool, n)
}

func TestPools(t *testing.T) {
	specs, err := Pools(`[{"pool":"orders","size":1024,"excludeBelow":2},{"pool":"users","size":8,"excludeBelow":0}]`)
	if err != nil || len(specs) != 2 || specs[0] != (Spec{"orders", 1024, 2}) {
		t.Errorf("%+v, %v", specs, err)
	}
	for text, says := range map[string][]string{
		``:                                  {"NODELEASE_POOLS", "use a list"},
		`[]`:                                {"no pool"},
		`[{"pool":"a"},{"pool":"a"}]`:       {`"a" twice`},
		`[{"pool":"a#"},{"pool":""}]`:       {`"a#"`, `""`},
		`{"pool":"a"}`:                      {"use a list"},
		`[{"pool":"a","size":"1024"}]`:      {"use a list"},
		`[{"pool":"` + "\x00" + `"}] extra`: {"use a list"},
	} {
		_, err := Pools(text)
		for _, say := range says {
			if err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v, want %q", text, err, say)
			}
		}
	}
}

func TestOpen(t *testing.T) {
	for _, name := range []string{"NODELEASE_TABLE", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"} {
		t.Setenv(name, "")
	}
	if s, err := Open(); s != nil || err == nil || !strings.Contains(err.Error(), "NODELEASE_TABLE") {
		t.Errorf("%v, %v", s, err)
	}
	t.Setenv("NODELEASE_TABLE", "nodelease")
	if s, err := Open(); s != nil || err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("%v, %v", s, err)
	}
	if m, err := OpenMetrics(); m != nil || err == nil {
		t.Errorf("%v, %v", m, err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	if s, err := Open(); s != nil || err == nil {
		t.Errorf("without a Region: %v, %v", s, err)
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	for _, c := range []struct{ all, one, want string }{{"", "", ""}, {"http://all", "", "http://all"}, {"http://all", "http://one", "http://one"}} {
		t.Setenv("AWS_ENDPOINT_URL", c.all)
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", c.one)
		cfg, err := environment("DYNAMODB")
		if got := aws.ToString(cfg.BaseEndpoint); err != nil || got != c.want {
			t.Errorf("endpoint %q, want %q, %v", got, c.want, err)
		}
	}
	if s, err := Open(); s == nil || err != nil {
		t.Errorf("%v, %v", s, err)
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct{ left, keeps time.Duration }{{10 * time.Minute, 10 * time.Second}, {10 * time.Second, 2 * time.Second}} {
		ctx, cancel := context.WithTimeout(t.Context(), c.left)
		inner, stop := budget(ctx)
		outerEnd, _ := ctx.Deadline()
		end, _ := inner.Deadline()
		if kept := outerEnd.Sub(end); kept > c.keeps || kept < c.keeps-time.Second {
			t.Errorf("of %v, %v is kept back, want %v", c.left, kept, c.keeps)
		}
		stop()
		cancel()
	}
	ctx, stop := budget(t.Context())
	defer stop()
	if _, ok := ctx.Deadline(); ok {
		t.Error("a context without a deadline got one")
	}
	ended, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	ctx, stop = budget(ended)
	defer stop()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) && !errors.Is(context.Cause(ctx), errTime) {
		t.Errorf("the context ended with %v, want its deadline", context.Cause(ctx))
	}
}

func errorHas(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("error %v, want one with %q", err, text)
		}
	}
}
