package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// stream is a log stream of CloudWatch, with the log of one task.
type stream struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// records returns the lines of all streams up to a time, as Logs Insights finds them.
func records(t *testing.T, streams map[string]*stream, until time.Time) (all []map[string]any) {
	t.Helper()
	for name, s := range streams {
		s.mu.Lock()
		lines := s.buf.String()
		s.mu.Unlock()
		for line := range strings.Lines(lines) {
			r := map[string]any{}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(r["time"]))
			if err != nil {
				t.Fatal(err)
			}
			if r["@timestamp"], r["@logStream"] = at, name; !at.After(until) {
				all = append(all, r)
			}
		}
	}
	return all
}

var (
	isLike  = regexp.MustCompile(`^(\w+) like /(.*)/$`)
	isEqual = regexp.MustCompile(`^(\w+) = (.+)$`)
	isIn    = regexp.MustCompile(`^(\w+) in \[(.+)\]$`)
)

// queried runs the part of Logs Insights that the documented query uses.
func queried(t *testing.T, query string, all []map[string]any) []map[string]any {
	t.Helper()
	for line := range strings.SplitSeq(query, "\n") {
		verb, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "| "), " ")
		switch verb {
		case "fields":
		case "filter":
			for term := range strings.SplitSeq(rest, " and ") {
				all = slices.DeleteFunc(all, func(r map[string]any) bool { return !holds(t, term, r) })
			}
		case "sort":
			if rest != "@timestamp desc" {
				t.Fatalf("sort %s", rest)
			}
			slices.SortStableFunc(all, func(a, b map[string]any) int {
				return b["@timestamp"].(time.Time).Compare(a["@timestamp"].(time.Time))
			})
		case "limit":
			n, err := strconv.Atoi(rest)
			if err != nil {
				t.Fatal(err)
			}
			all = all[:min(n, len(all))]
		default:
			t.Fatalf("%q is not a part of Logs Insights that this test implements", line)
		}
	}
	return all
}

func holds(t *testing.T, term string, r map[string]any) bool {
	t.Helper()
	if m := isLike.FindStringSubmatch(term); m != nil {
		return regexp.MustCompile(m[2]).MatchString(fmt.Sprint(r[m[1]]))
	}
	if m := isEqual.FindStringSubmatch(term); m != nil {
		return fmt.Sprint(r[m[1]]) == strings.Trim(m[2], `"`)
	}
	if m := isIn.FindStringSubmatch(term); m != nil {
		for one := range strings.SplitSeq(m[2], ", ") {
			if fmt.Sprint(r[m[1]]) == strings.Trim(one, `"`) {
				return true
			}
		}
		return false
	}
	t.Fatalf("%q is not a part of Logs Insights that this test implements", term)
	return false
}

// The query in docs/operations.md finds the holder of a node ID at a time in the logs
// of agents: the first line that the query finds is about the holder, or about the end
// of the holder's lease.
func TestWhoHadIt(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "## Who had a node ID\n")
	_, rest, fenced := strings.Cut(rest, "```\n")
	query, _, ended := strings.Cut(rest, "\n```")
	if !found || !fenced || !ended {
		t.Fatal("docs/operations.md has no query under Who had a node ID")
	}
	query = strings.Replace(query, "node_id = 7", "node_id = 0", 1)
	synctest.Test(t, func(t *testing.T) {
		store := leasetest.NewMemory("orders", 1)
		streams := map[string]*stream{}
		start := func(task string) *lease.Agent {
			streams[task] = &stream{}
			a, err := lease.Start(t.Context(), lease.Config{Pool: "orders", Store: store, Task: task, TTL: 10 * time.Second, Logger: slog.New(slog.NewJSONHandler(streams[task], nil)), Wait: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		type moment struct {
			at            time.Time
			event, stream string
		}
		var want []moment
		note := func(event, stream string) {
			time.Sleep(time.Second) // virtual: the log has been written
			synctest.Wait()
			want = append(want, moment{time.Now(), event, stream})
			time.Sleep(time.Second) // later events have another time
		}
		first := start("task/a")
		note("claimed", "task/a")
		time.Sleep(time.Hour)
		note("claimed", "task/a") // renewals change nothing
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		note("released", "task/a")
		second := start("task/b")
		note("claimed", "task/b")
		store.SetOutage(fmt.Errorf("away"))
		time.Sleep(time.Minute)
		note("suspended", "task/b")
		store.SetOutage(nil)
		time.Sleep(time.Minute)
		note("resumed", "task/b")
		store.SetOutage(fmt.Errorf("away"))
		if err := second.Close(); err == nil {
			t.Fatal("released through an outage")
		}
		note("not_released", "task/b")
		store.SetOutage(nil)
		third := start("task/c")
		note("claimed", "task/c")
		for _, w := range want {
			got := queried(t, query, records(t, streams, w.at))
			if len(got) == 0 || got[0]["event"] != w.event || got[0]["@logStream"] != w.stream {
				t.Errorf("at %v: got %v, want %s of %s", w.at, got[:min(len(got), 1)], w.event, w.stream)
			}
			for _, r := range got {
				if v, ok := r["version"].(float64); !ok || v < 1 {
					t.Errorf("no version in %v", r)
				}
			}
		}
		if got := queried(t, query, records(t, streams, want[0].at.Add(-time.Hour))); len(got) != 0 {
			t.Errorf("before all events: got %v, want none", got)
		}
		if err := third.Close(); err != nil {
			t.Error(err)
		}
	})
}
