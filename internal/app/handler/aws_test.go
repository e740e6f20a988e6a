package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// hosts records the hosts to which requests are sent, and answers none of them.
type hosts []string

func (h *hosts) Do(r *http.Request) (*http.Response, error) {
	*h = append(*h, r.URL.Host)
	return nil, http.ErrServerClosed
}

// The function honours the SDK's settings that a deployer sets.
func TestSettings(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_CLOUDWATCH"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_REGION", "us-east-2")
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, c := range []struct {
		fips, dual, attempts string
		dynamodb, cloudwatch string
		tries                int
	}{
		{"", "", "1", "dynamodb.us-east-2.amazonaws.com", "monitoring.us-east-2.amazonaws.com", 1},
		{"true", "", "2", "dynamodb-fips.us-east-2.amazonaws.com", "monitoring-fips.us-east-2.amazonaws.com", 2},
		{"false", "TRUE", "1", "dynamodb.us-east-2.api.aws", "monitoring.us-east-2.api.aws", 1},
	} {
		t.Setenv("AWS_USE_FIPS_ENDPOINT", c.fips)
		t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", c.dual)
		t.Setenv("AWS_MAX_ATTEMPTS", c.attempts)
		t.Setenv("AWS_RETRY_MODE", "standard")
		cfg, err := environment("DYNAMODB")
		if err != nil {
			t.Fatal(err)
		}
		var asked hosts
		cfg.HTTPClient = &asked
		table := "nodelease"
		_, _ = dynamodb.NewFromConfig(cfg).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table}) // nothing answers
		if len(asked) != c.tries || asked[0] != c.dynamodb {
			t.Errorf("%+v: asked %q, want %q %d times", c, asked, c.dynamodb, c.tries)
		}
		asked = nil
		_, _ = cloudwatch.NewFromConfig(cfg).PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: aws.String("Nodelease")}) // nothing answers
		if len(asked) != c.tries || asked[0] != c.cloudwatch {
			t.Errorf("%+v: asked %q, want %q %d times", c, asked, c.cloudwatch, c.tries)
		}
	}
	for name, wrong := range map[string]string{"AWS_USE_FIPS_ENDPOINT": "yes", "AWS_USE_DUALSTACK_ENDPOINT": "1", "AWS_MAX_ATTEMPTS": "0", "AWS_RETRY_MODE": "never"} {
		old := os.Getenv(name)
		t.Setenv(name, wrong)
		_, err := environment("DYNAMODB")
		errorHas(t, err, name, wrong)
		t.Setenv(name, old)
	}
}

// A report of the Lambda runtime through package log is logged as an error.
func TestRuntimeErrorsAreErrors(t *testing.T) {
	old, stdout := slog.Default(), os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	Log()
	os.Stdout = stdout
	log.Print("runtime API is gone")
	slog.InfoContext(context.Background(), "as before")
	slog.SetDefault(old)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	levels := map[string]string{}
	for line := range strings.Lines(text.String()) {
		var l struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		levels[l.Msg] = l.Level
	}
	if levels["runtime API is gone"] != "ERROR" || levels["as before"] != "INFO" {
		t.Errorf("got levels %v, want the runtime's as ERROR", levels)
	}
}

// Connections that were open when Lambda froze the process are not used again, because the
// first request on such a connection may fail, which the reaper would take for an outage.
func TestThaw(t *testing.T) {
	logs(t)
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	defer thaw()
	for name, value := range map[string]string{"NODELEASE_TABLE": "nodelease", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_DYNAMODB": ""} {
		t.Setenv(name, value)
	}
	store, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		before := opened.Load() // the transport may open one too many
		_, err := (&Reaper{Store: store, Pools: both[:1]}).Handle(t.Context())
		errorHas(t, err, "does not exist")
		if opened.Load() == before {
			t.Errorf("%d connections, none of them new; want a new one for each event", before)
		}
	}
}
