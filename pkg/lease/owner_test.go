package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/ecs"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

const (
	arn = "arn:aws:ecs:eu-west-1:123456789012:task/prod/0123456789abcdef0123456789abcdef"
	// good is a shortened answer from Fargate's metadata endpoint.
	good = `{"Cluster":"prod","TaskARN":"` + arn + `","Family":"orders","AvailabilityZone":"eu-west-1b","Containers":[{"Name":"app"}]%s}`
)

// onECS starts a metadata server. identify sends its requests to this server, as it would
// in a task.
func onECS(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	t.Setenv(ecs.Variable, server.URL+"/v4/0123-456")
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "")
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v4/0123-456/task" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, body)
	}
}

func hostAndPID(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

func TestIdentifyECS(t *testing.T) {
	const off, unsynced = `{"ClockErrorBound":2500.5,"ReferenceTimestamp":"2026-11-21T10:00:00Z","ClockSynchronizationStatus":"SYNCHRONIZED"}`,
		`{"ClockErrorBound":0.5,"ReferenceTimestamp":"2026-11-21T10:00:00Z","ClockSynchronizationStatus":"NOT_SYNCHRONIZED"}`
	for _, c := range []struct {
		name, extra, refused string
	}{
		{"no word on the clock (EC2)", ``, ""},
		{"a good clock", `,"ClockDrift":{"ClockErrorBound":0.54,"ReferenceTimestamp":"2026-11-21T10:00:00Z","ClockSynchronizationStatus":"SYNCHRONIZED"}`, ""},
		{"off, at the task", `,"ClockDrift":` + off, "off by 2.5005s"},
		{"off, at a container", `,"Containers":[{"Name":"app"},{"ClockDrift":` + off + `}]`, "off by 2.5005s"},
		{"not synchronized, at the task", `,"ClockDrift":` + unsynced, "not synchronized"},
		{"not synchronized, at one container", `,"ClockDrift":` + off + `,"Containers":[{"ClockDrift":` + unsynced + `}]`, "not synchronized"},
		{"off by ages", `,"ClockDrift":{"ClockErrorBound":1e300}`, "off by 24h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onECS(t, says(fmt.Sprintf(good, c.extra)))
			o := identify(t.Context())
			if o.name != arn || o.task.Cluster != "prod" || o.task.Zone != "eu-west-1b" || o.warning != nil {
				t.Errorf("%+v", o)
			}
			now := time.Date(2026, 11, 21, 10, 0, 3, 0, time.UTC)
			err := o.checkClock(now, 1500*time.Millisecond)
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused == "":
			case !errors.Is(err, ErrClockSkew) || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "2026-11-21T10:00:03.000Z"):
				t.Errorf("error %v, want ErrClockSkew, %q and this machine's time", err, c.refused)
			case !strings.Contains(c.extra, "1e300") && !strings.Contains(err.Error(), "2026-11-21T10:00:00Z"):
				t.Errorf("error %v, want the reference's time too", err)
			}
		})
	}
	t.Run("exactly tolerated", func(t *testing.T) {
		o := owner{task: ecs.Task{Clock: ecs.Clock{Error: time.Second}}}
		if err := o.checkClock(time.Now(), time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestIdentifyElsewhere(t *testing.T) {
	t.Setenv(ecs.Variable, "")
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "")
	if o := identify(t.Context()); o.name != hostAndPID(t) || o.warning != nil {
		t.Errorf("%+v", o)
	}
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
	if o := identify(t.Context()); o.warning == nil || !strings.Contains(o.warning.Error(), "frozen") {
		t.Errorf("in Lambda: %v", o.warning)
	}
}

// Whatever the metadata endpoint does, the start continues within a limited time, with
// host and pid as the task's name, and with a warning.
func TestIdentifyBroken(t *testing.T) {
	asked := 0
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"error": {func(w http.ResponseWriter, _ *http.Request) { asked++; http.Error(w, "no", 500) }, "500"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "deadline exceeded"},
		"trickle": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"TaskARN":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "deadline exceeded"},
		"no JSON":     {says("<html>"), "invalid character"},
		"wrong types": {says(`{"TaskARN":7}`), "TaskARN"},
		"no ARN":      {says(`{"TaskARN":"arn:aws:ecs:x:1:task/` + strings.Repeat("x", 5000) + `"}`), "not a task's ARN"},
		"control":     {says(`{"TaskARN":"` + arn + `\nfake log line"}`), "not a task's ARN"},
		"huge":        {says(`{"Cluster":"` + strings.Repeat("x", 2<<20) + `"}`), "longer than"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/task") {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			t.Error("the redirect was followed")
		}, "302"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "slow" && testing.Short() {
				t.Skip("it waits for two seconds: run without -short")
			}
			onECS(t, c.answer)
			ctx, cancel := t.Context(), func() {}
			if name == "trickle" { // "slow" takes as long as a start waits at most
				ctx, cancel = context.WithTimeout(ctx, metadataLimit/4)
			}
			defer cancel()
			began := time.Now()
			o := identify(ctx)
			took := time.Since(began)
			if took > metadataLimit+10*time.Second {
				t.Errorf("took %v", took)
			}
			says := c.says
			if took >= metadataLimit { // the machine was too slow to reach the expected error
				says = "deadline exceeded"
			}
			if o.name != hostAndPID(t) || o.warning == nil || !strings.Contains(o.warning.Error(), says) {
				t.Errorf("%+v, want a warning with %q", o, c.says)
			}
			if err := o.checkClock(time.Now(), time.Millisecond); err != nil {
				t.Errorf("start refused: %v", err)
			}
		})
	}
	if asked < 1 || asked > 3 { // fewer than 3 if there was not enough time
		t.Errorf("asked %d times, want 3", asked)
	}
}

// The facts about this process are added to a lease's metadata if there is room. The
// user's own map is not changed.
func TestWithFacts(t *testing.T) {
	facts := [][2]string{{"zone", "eu-west-1b"}, {"cluster", "prod"}, {"lib", "v1.2.3"}, {"region", ""}}
	given := map[string]string{"build": "7"}
	for _, c := range []struct {
		given map[string]string
		room  int
		want  string
	}{
		{nil, 100, "map[cluster:prod lib:v1.2.3 zone:eu-west-1b]"},
		{given, 100, "map[build:7 cluster:prod lib:v1.2.3 zone:eu-west-1b]"},
		{map[string]string{"zone": "mine", "lib": "own"}, 100, "map[cluster:prod lib:own zone:mine]"},
		{given, 14 + 9, "map[build:7 lib:v1.2.3 zone:eu-west-1b]"},
		{given, 14, "map[build:7 zone:eu-west-1b]"},
		{given, 13, "map[build:7 cluster:prod]"},
		{given, 10, "map[build:7 lib:v1.2.3]"},
		{nil, 8, "map[]"},
	} {
		if got := fmt.Sprint(withFacts(c.given, c.room, facts)); got != c.want {
			t.Errorf("%v with room for %d: %s, want %s", c.given, c.room, got, c.want)
		}
	}
	if len(given) != 1 {
		t.Errorf("the caller's map was changed: %v", given)
	}
}

// If the user sets the name of the task, introduce does not add the zone and the cluster
// either.
func TestIntroduce(t *testing.T) {
	o := owner{name: arn, task: ecs.Task{Zone: "eu-west-1b", Cluster: "prod"}}
	if c := o.introduce(Config{}); c.Task != arn || c.Metadata["zone"] != "eu-west-1b" || c.Metadata["cluster"] != "prod" {
		t.Errorf("%q %v", c.Task, c.Metadata)
	}
	if c := o.introduce(Config{Task: "mine"}); c.Task != "mine" || c.Metadata["zone"] != "" {
		t.Errorf("%q %v", c.Task, c.Metadata)
	}
	long := strings.Repeat("x", maxText-5)
	if c := o.introduce(Config{Metadata: map[string]string{"build": long}}); len(c.Metadata) != 1 {
		t.Errorf("%d bytes more than there is room for", c.text()-maxText)
	}
}

// From time to time, an agent asks ECS about the clock again, outside the loop, and emits
// a warning if the clock's error has become too large.
func TestECSIsAskedAgain(t *testing.T) {
	var bound atomic.Int64
	var asked atomic.Int64
	onECS(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, good, fmt.Sprintf(`,"ClockDrift":{"ClockErrorBound":%d,"ClockSynchronizationStatus":"SYNCHRONIZED"}`, bound.Load()))
	})
	cfg, err := Config{Pool: "orders", Store: struct{ Store }{}, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	var clock stopped
	events := make(chan Event, 8)
	a := &Agent{cfg: cfg, clock: &clock, timeline: snowflake.NewTimeline(&clock), events: outlets{hook: outlet{fn: func(e Event) { events <- e }}}, term: tenure.NewTerm(cfg.timings(), protocol.Lease{}, 0)}
	ask := func(after time.Duration) time.Duration {
		clock.at += after
		a.askECSAgain(t.Context())
		a.background.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.ecs.clockError
	}
	bound.Store(3)
	if got := ask(askEvery - 1); got != 0 || asked.Load() != 0 {
		t.Errorf("asked early: %v", got)
	}
	if got := ask(1); got != 3*time.Millisecond {
		t.Errorf("a clock error of %v, want 3ms", got)
	}
	bound.Store(5000)
	if got := ask(time.Second); got != 3*time.Millisecond || asked.Load() != 1 {
		t.Errorf("asked again at once: %v", got)
	}
	if got := ask(askEvery); got != 5*time.Second {
		t.Errorf("a clock error of %v, want 5s", got)
	}
	if e := <-events; e.Kind != EventWarning || !errors.Is(e.Err, ErrClockSkew) || e.ClockError != 5*time.Second {
		t.Errorf("%+v", e)
	}
	a.closing = true
	if ask(askEvery); asked.Load() != 2 {
		t.Error("asked while closing")
	}
}
