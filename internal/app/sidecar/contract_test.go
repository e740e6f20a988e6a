package sidecar_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

var update = flag.Bool("update", false, "write the answers to docs/sidecar.md")

const contract = "../../../docs/sidecar.md"

// serving is a sidecar's handler, with a lease of a store in memory.
type serving struct {
	http.Handler
	store *leasetest.Memory
	agent *lease.Agent
	ids   *snowflake.Generator
}

func serve(t testing.TB, layout snowflake.Layout) *serving {
	t.Helper()
	return serveOn(t, leasetest.NewMemory("orders", 1), layout)
}

func serveOn(t testing.TB, store *leasetest.Memory, layout snowflake.Layout) *serving {
	t.Helper()
	s := &serving{store: store}
	metrics, err := sidecar.NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	s.agent, err = lease.Start(t.Context(), lease.Config{
		Store: s.store, Pool: "orders", Task: "web-1", Metadata: map[string]string{"zone": "a"},
		Logger: slog.New(slog.DiscardHandler), OnEvent: metrics.Event,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.agent.Close() })
	if err := metrics.Observe(s.agent); err != nil {
		t.Fatal(err)
	}
	s.ids, err = snowflake.New(s.agent, snowflake.WithLayout(layout))
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = sidecar.Handler(s.agent, s.ids, metrics)
	return s
}

// ask sends a request exactly as in the contract, and records the answer.
func (s *serving) ask(t *testing.T, text string) string {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	line, headers, _ := strings.Cut(head, "\n")
	raw := line + " HTTP/1.1\r\n"
	if !strings.Contains(headers, "Host:") {
		raw += "Host: 127.0.0.1:7373\r\n"
	}
	if headers != "" {
		raw += strings.ReplaceAll(headers, "\n", "\r\n") + "\r\n"
	}
	if body != "" {
		raw += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw + "\r\n" + body)))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	out := fmt.Sprintf("%d %s\n", w.Code, w.Header().Get("Content-Type"))
	for _, name := range []string{"Allow", "Retry-After"} {
		if v := w.Header().Get(name); v != "" {
			out += name + ": " + v + "\n"
		}
	}
	if w.Header().Get("Content-Type") == "application/octet-stream" {
		return out + fmt.Sprintf("\n(%d bytes)\n", w.Body.Len())
	}
	return out + "\n" + w.Body.String()
}

// serveFixed returns a handler for a fixed node ID, which is not leased.
func serveFixed(t testing.TB, layout snowflake.Layout) *serving {
	t.Helper()
	metrics, err := sidecar.NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	node, err := leasefixed.New(7, layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	s := &serving{}
	if s.ids, err = snowflake.New(node); err != nil {
		t.Fatal(err)
	}
	s.Handler = sidecar.Handler(node, s.ids, metrics)
	return s
}

// states are the states of a sidecar, by the names in the info strings of the page's code blocks.
var states = map[string]func(*testing.T) *serving{
	"held": func(t *testing.T) *serving { return serve(t, snowflake.Default()) },
	"53":   func(t *testing.T) *serving { return serve(t, snowflake.JS53()) },
	"suspended": func(t *testing.T) *serving {
		s := serve(t, snowflake.Default())
		s.store.SetOutage(errors.New("away"))
		time.Sleep(20 * time.Second) // virtual
		return s
	},
	"lost": func(t *testing.T) *serving {
		s := serve(t, snowflake.Default())
		s.store.SetOutage(errors.New("away"))
		time.Sleep(20 * time.Second) // virtual
		s.store.SetOutage(nil)
		now := time.Now()
		res, err := s.store.Write(t.Context(), protocol.Claim{
			Key: protocol.Key{Pool: "orders"}, Session: "another", Task: "web-2", At: now, ClaimGuard: time.Second,
			ExpiresAt: now.Add(15 * time.Second), ReservedUntil: now.Add(16 * time.Second),
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		<-s.agent.Done()
		return s
	},
	"fixed": func(t *testing.T) *serving { return serveFixed(t, snowflake.JS53()) },
	"closed": func(t *testing.T) *serving {
		s := serve(t, snowflake.Default())
		if err := s.agent.Close(); err != nil {
			t.Fatal(err)
		}
		return s
	},
}

// varies matches values that differ from run to run: IDs, times, time left.
var varies = regexp.MustCompile(`\d{15,}|\d{4}-\d\d-\d\dT[0-9:.]+Z|"left_ms":-?\d+|"first":"\d+"|[0-9.]+m?s ago`)

// The exchanges in the contract are the same as real ones in virtual time.
func TestContract(t *testing.T) {
	page, err := os.ReadFile(contract)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```http (\\w+)\n(.*?)\n\n(\\d\\d\\d .*?)```")
	found := map[string]int{}
	changed := block.ReplaceAllStringFunc(string(page), func(text string) string {
		parts := block.FindStringSubmatch(text)
		state, request, want := parts[1], parts[2], parts[3]
		found[state]++
		var got string
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // virtual time begins in 2000
			begin := states[state]
			if begin == nil {
				t.Fatalf("no state %q", state)
			}
			got = begin(t).ask(t, request)
		})
		if varies.ReplaceAllString(got, "…") != varies.ReplaceAllString(want, "…") {
			if !*update {
				t.Errorf("%s, %s\n%s\nwant\n%s", state, request, got, want)
			}
			return "```http " + state + "\n" + request + "\n\n" + got + "```"
		}
		return text
	})
	for state := range states {
		if found[state] == 0 {
			t.Errorf("the contract has no exchange in state %q", state)
		}
	}
	if *update {
		if err := os.WriteFile(contract, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The metrics' names are part of the contract too.
func TestContractMetrics(t *testing.T) {
	var page string
	for _, file := range []string{contract, "../../../docs/metrics.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page += string(text)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // virtual
		s := serve(t, snowflake.Default())
		s.ask(t, "POST /v1/ids?n=7")
		time.Sleep(time.Minute) // virtual
		answer := s.ask(t, "GET /metrics")
		for _, m := range regexp.MustCompile("`(nodelease_[a-z_]+)`").FindAllStringSubmatch(page, -1) {
			if !strings.Contains(answer, "# TYPE "+m[1]+" ") {
				t.Errorf("nothing listens on %s", m[1])
			}
		}
		for _, m := range regexp.MustCompile(`# TYPE (nodelease_\w+)`).FindAllStringSubmatch(answer, -1) {
			if !strings.Contains(page, "`"+m[1]+"`") {
				t.Errorf("%s is not in the contract", m[1])
			}
		}
		for _, want := range []string{`nodelease_ids_issued_total{pool="orders"} 7`, `nodelease_lease_held{pool="orders"} 1`, `nodelease_lease_events_total{event="lost",pool="orders"} 0`, `nodelease_http_requests_total{code="200",path="/v1/ids"} 1`} {
			if !strings.Contains(answer, want) {
				t.Errorf("want %q in\n%s", want, answer)
			}
		}
	})
}

// The task definition on the page is JSON, and has the settings that the page explains.
func TestTaskDefinition(t *testing.T) {
	page, err := os.ReadFile(contract)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```json\n(\\{\n  \"family\".*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("there is none")
	}
	var task struct {
		NetworkMode          string
		ContainerDefinitions []struct {
			Name        string
			Command     []string
			Essential   bool
			HealthCheck struct{ Command []string }
			DependsOn   []struct{ ContainerName, Condition string }
		}
	}
	if err := json.Unmarshal(found[1], &task); err != nil {
		t.Fatal(err)
	}
	for _, c := range task.ContainerDefinitions {
		switch {
		case c.Name == "nodelease":
			if !c.Essential || len(c.Command) == 0 || c.Command[0] != "serve" || !slices.Contains(c.HealthCheck.Command, "--healthcheck") {
				t.Errorf("the sidecar is %+v, want an essential container with serve and its health check", c)
			}
		case len(c.DependsOn) != 1 || c.DependsOn[0].ContainerName != "nodelease" || c.DependsOn[0].Condition != "HEALTHY":
			t.Errorf("%s depends on %+v, want on a healthy sidecar", c.Name, c.DependsOn)
		}
	}
	if len(task.ContainerDefinitions) != 3 || task.NetworkMode != "awsvpc" {
		t.Errorf("got %d containers with the network %s, want 3 that share a loopback interface", len(task.ContainerDefinitions), task.NetworkMode)
	}
}
