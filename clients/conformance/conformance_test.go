package conformance

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// adapters contains the commands of the clients' adapters, which are run in the folder
// clients. They need the toolchains of their languages and the builds of scripts/test.sh
// clients. So the tests run only for the languages in NODELEASE_CLIENTS.
var adapters = map[string][]string{
	"python":         {"python3", "python/tests/adapter.py"},
	"python-asyncio": {"python3", "python/tests/adapter.py", "asyncio"},
	"javascript":     {"node", "javascript/test/adapter.mjs"},
	"java":           {"java", "-Xmx512m", "-cp", "java/core/target/classes:java/core/target/test-classes", "dev.nodelease.Adapter"},
	// The options make all virtual threads run on one platform thread. This adapter needs
	// JDK 21 or newer.
	"java-virtual": {cmp.Or(os.Getenv("NODELEASE_JAVA_VIRTUAL"), "java"), "-Xmx512m", "-Djdk.virtualThreadScheduler.parallelism=1", "-Djdk.virtualThreadScheduler.maxPoolSize=1",
		"-cp", "java/core/target/classes:java/core/target/test-classes", "dev.nodelease.Adapter", "virtual"},
}

// languages returns the names of the adapters to run.
func languages(t *testing.T) (all []string) {
	t.Helper()
	list := os.Getenv("NODELEASE_CLIENTS")
	if list == "" {
		t.Skip("needs Python, Node and Java: scripts/test.sh clients runs it")
	}
	for name := range strings.SplitSeq(list, ",") {
		if adapters[name] == nil {
			t.Fatalf("NODELEASE_CLIENTS=%s: no adapter %q", list, name)
		}
		all = append(all, name)
	}
	return all
}

// adapter is a client in another process.
type adapter struct {
	in  io.Writer
	out *bufio.Reader
}

func startAdapter(t *testing.T, language string) *adapter {
	t.Helper()
	command := adapters[language]
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python", "src"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &adapter{in, bufio.NewReader(out)}
}

// connect makes the adapter use a new generator with the sidecar s.
func (a *adapter) connect(t *testing.T, s *server) {
	t.Helper()
	if got, err := a.do(step{Op: "new", Sidecar: s.address}); err != nil || got.Error != "" {
		t.Fatal(got, err)
	}
}

// step is a line of a case: either a command for the adapter or a change of the server.
type step struct {
	Server  string         `json:"server,omitempty"`
	Op      string         `json:"op,omitempty"`
	N       int            `json:"n,omitempty"`
	Threads int            `json:"threads,omitempty"`
	Clock   string         `json:"clock,omitempty"`
	MS      int            `json:"ms,omitempty"`
	Layout  map[string]any `json:"layout,omitempty"`
	ID      string         `json:"id,omitempty"`
	Sidecar string         `json:"sidecar,omitempty"`
	Error   string         `json:"error,omitempty"`     // the expected error
	Detail  string         `json:"detail,omitempty"`    // a part of the expected error's text
	Count   int            `json:"count,omitempty"`     // the expected count
	Within  int            `json:"within_ms,omitempty"` // the longest time, in ms, that the answer may take
}

type answer struct {
	IDs      []string `json:"ids"`
	Error    string   `json:"error"`
	Detail   string   `json:"detail"`
	Count    int      `json:"count"`
	TimeMS   int64    `json:"time_ms"`
	Node     int      `json:"node"`
	Sequence int      `json:"sequence"`
}

func (a *adapter) do(s step) (got answer, err error) {
	s.Error, s.Detail, s.Count, s.Within = "", "", 0, 0
	line, err := json.Marshal(s)
	if err != nil {
		return got, err
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return got, err
	}
	text, err := a.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	return got, err
}

// seen contains all IDs of a pool, and who made each of them.
type seen struct {
	mu  sync.Mutex
	ids map[snowflake.ID]string
}

// add records IDs. It returns an error if one of them was made before, has a time in the
// future or, if ordered is set, is out of order.
func (s *seen) add(l snowflake.Layout, by string, texts []string, ordered bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last snowflake.ID
	for _, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		id := snowflake.ID(n)
		if before, ok := s.ids[id]; ok {
			return fmt.Errorf("%d made by %s and by %s", id, before, by)
		}
		if ordered && id <= last {
			return fmt.Errorf("%d after %d", id, last)
		}
		if at := l.Decompose(id).Time; at.After(time.Now()) {
			return fmt.Errorf("ID %d is of %v, which is in the future", id, at)
		}
		s.ids[id], last = by, id
	}
	return nil
}

func TestCases(t *testing.T) {
	text, err := os.ReadFile("cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name  string
		Steps []step
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 20 {
		t.Fatal(len(cases), err)
	}
	for _, language := range languages(t) {
		a := startAdapter(t, language)
		for i, c := range cases {
			t.Run(language+"/"+c.Name, func(t *testing.T) {
				s, all := newServer(t, leasetest.NewMemory("orders", 4), snowflake.Default(), i%2 == 0), &seen{ids: map[snowflake.ID]string{}}
				a.connect(t, s)
				for n, step := range c.Steps {
					if step.Server != "" {
						s.set(step.Server)
						continue
					}
					began := time.Now()
					got, err := a.do(step)
					if took := time.Since(began); step.Within != 0 && took > time.Duration(step.Within)*time.Millisecond {
						t.Errorf("step %d, %+v: took %v", n, step, took)
					}
					if err == nil && got.Error == "" && len(got.IDs) > 0 {
						err = all.add(s.layout, fmt.Sprint("step ", n), got.IDs, step.Op == "next" || step.Op == "batch")
					}
					if err != nil || got.Error != step.Error || !strings.Contains(got.Detail, step.Detail) || step.Count != 0 && got.Count != step.Count {
						t.Fatalf("step %d, %+v: %v, error %q (%s), count %d", n, step, err, got.Error, got.Detail, got.Count)
					}
					want := map[string]int{"next": 1, "batch": step.N, "beside": step.N + 1, "threads": step.Threads * step.N}[step.Op]
					if step.Error == "" && want != 0 && len(got.IDs) != want {
						t.Fatalf("step %d: got %d IDs, want %d", n, len(got.IDs), want)
					}
				}
			})
		}
	}
}

// layouts are the layouts in which the clients must make and decode IDs.
var layouts = func() map[string]snowflake.Layout {
	all := map[string]snowflake.Layout{
		"own": {Epoch: time.UnixMilli(1700000000001).UTC(), Tick: 10 * time.Millisecond, TimeBits: 36, NodeBits: 5, SequenceBits: 17, NodeLast: true},
	}
	for _, name := range leasepool.LayoutNames() {
		l, err := leasepool.ParseLayout(name)
		if err != nil {
			panic(err)
		}
		all[name] = l
	}
	return all
}()

// Every client decodes IDs of every layout as package snowflake does, including IDs that the
// client itself has made.
func TestLayouts(t *testing.T) {
	for _, language := range languages(t) {
		a := startAdapter(t, language)
		for name, l := range layouts {
			t.Run(language+"/"+name, func(t *testing.T) {
				s, all := newServer(t, leasetest.NewMemory("orders", 8), l, true), &seen{ids: map[snowflake.ID]string{}}
				a.connect(t, s)
				got, err := a.do(step{Op: "batch", N: 3000})
				if err == nil {
					err = all.add(l, "batch", got.IDs, true)
				}
				if err != nil || len(got.IDs) != 3000 {
					t.Fatal(len(got.IDs), got.Error, got.Detail, err)
				}
				vectors := []snowflake.ID{0, 1, 1<<63 - 1, 0x123456789abcdef, l.First(time.Now()), l.Last(time.Now())}
				for _, text := range []string{got.IDs[0], got.IDs[2999]} {
					id, err := snowflake.Parse(text)
					if err != nil {
						t.Fatal(err)
					}
					vectors = append(vectors, id)
				}
				for _, id := range vectors {
					if id>>(l.TimeBits+l.NodeBits+l.SequenceBits) != 0 {
						continue
					}
					got, err := a.do(step{Op: "decode", ID: id.String(), Layout: map[string]any{
						"epoch_ms": l.Epoch.UnixMilli(), "tick_ms": l.Tick.Milliseconds(), "time_bits": l.TimeBits,
						"node_bits": l.NodeBits, "sequence_bits": l.SequenceBits, "node_last": l.NodeLast,
					}})
					want := l.Decompose(id)
					if err != nil || got.TimeMS != want.Time.UnixMilli() || got.Node != want.Node || got.Sequence != want.Sequence {
						t.Errorf("%d: got %+v, %v, want %+v", id, got, err, want)
					}
				}
			})
		}
	}
}

// Clients in all languages and in Go make IDs in one pool at the same time, while their
// sidecars restart, freeze and are cut off. All IDs are compared.
func TestChaos(t *testing.T) {
	store, all := leasetest.NewMemory("orders", 64), &seen{ids: map[snowflake.ID]string{}}
	l := snowflake.Default()
	var wg sync.WaitGroup
	for _, language := range append(languages(t), "go") {
		s := newServer(t, store, l, true)
		if language == "go" {
			wg.Go(func() { // package snowflake itself, with the agent of a sidecar
				ids, err := snowflake.New(s.agent)
				buf, texts := make([]snowflake.ID, 1000), make([]string, 1000)
				for range 100 {
					if err == nil {
						_, err = ids.NextN(t.Context(), buf)
					}
					for i, id := range buf {
						texts[i] = id.String()
					}
					if err == nil {
						err = all.add(l, language, texts, true)
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
			continue
		}
		// Two clients on one sidecar.
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for i := range 2 {
			a := startAdapter(t, language)
			a.connect(t, s)
			clients.Go(func() {
				for round := range 60 {
					op := step{Op: "batch", N: 2000}
					switch round % 3 {
					case 1:
						op = step{Op: "threads", Threads: 8, N: 20}
					case 2:
						op = step{Op: "step", Clock: "mono", MS: 500}
					}
					got, err := a.do(op)
					if err == nil && got.Error != "" && got.Error != "unavailable" && got.Error != "fenced" {
						err = fmt.Errorf("%s: %s", got.Error, got.Detail)
					}
					if err == nil {
						err = all.add(l, fmt.Sprint(language, i), got.IDs, op.Op == "batch")
					}
					if err != nil {
						t.Errorf("%s: %v", language, err)
						return
					}
				}
			})
		}
		wg.Go(func() { clients.Wait(); close(stop) })
		wg.Go(func() {
			for i := 0; ; i++ {
				s.set([]string{"restart", "cut once", "freeze", "ok", "lost", "ok"}[i%6])
				select {
				case <-stop:
					s.set("ok")
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d IDs compared", len(all.ids))
	if len(all.ids) < 100_000 {
		t.Errorf("only %d IDs", len(all.ids))
	}
}
