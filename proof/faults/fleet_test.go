package faults

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// ttl is the TTL of all leases in these tests. In production it is 15 s, so one second here stands
// for 15 s in production.
const ttl = time.Second

var rounds = flag.Int("rounds", 1, "run the tests this many times longer")

// The paths of the two programs. Each is built once.
var workerBinary, steppingBinary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "faults")
	if err == nil {
		err = build(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the worker twice, the second time with a time package whose wall clock can be
// moved. libfaketime could not move it, because Go reads the clock without libc.
func build(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const now = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	text := strings.Replace(string(src), now, "\tsec, nsec, mono := runtimeNow()\n"+
		"\tnanos := int64(nsec) + WallOffset.Load()\n\tsec += nanos / 1e9\n\tif nanos %= 1e9; nanos < 0 {\n\t\tnanos, sec = nanos+1e9, sec-1\n\t}\n\tnsec = int32(nanos)\n\tif mono == 0 {", 1)
	text = strings.Replace(text, "\t\"math/bits\"\n", "\t\"math/bits\"\n\t\"sync/atomic\"\n", 1) +
		"\n// WallOffset is added to the wall clock, and to nothing else.\nvar WallOffset atomic.Int64\n"
	if strings.Count(string(src), now) != 1 || !strings.Contains(text, "sync/atomic") {
		return fmt.Errorf("%s has changed: bring the overlay up to date", file)
	}
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, file, changed), 0o600); err != nil {
		return err
	}
	if _, err := os.ReadDir("worker"); err != nil { // so that go test does not use a cached result after a change in the folder worker
		return err
	}
	workerBinary, steppingBinary = filepath.Join(dir, "worker"), filepath.Join(dir, "stepping")
	for _, args := range [][]string{
		{"build", "-o", workerBinary, "./worker"},
		{"build", "-overlay", overlay, "-tags", "overlay", "-o", steppingBinary, "./worker"},
	} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// fleet contains the workers on one pool, and everything that they have reported.
type fleet struct {
	t      *testing.T
	r      *rand.Rand
	data   string // of the server
	addr   string
	server *embeddeddb.Server

	mu      sync.Mutex
	heard   sync.Cond // signals that a line has come, or that the time is up
	workers []*worker
	ids     map[int64]int // from an ID to the worker that made it
	owner   map[int64]int // from a millisecond of a node ID to the worker that stamped it
	uses    map[int][]use // by node ID
	broken  []string
}

type worker struct {
	*fleet
	number  int
	cmd     *exec.Cmd
	stdin   io.Writer
	ended   bool
	frozen  bool
	lines   map[string]int // the number of lines by kind
	node    int            // -1 before the first claim
	version int
	ids     int
	last    string // the last line that was not a list of IDs
	recent  []string
}

// use is an observation: a lease could be relied on at some moment between two readings of the
// clock that all processes share.
type use struct {
	who      int
	version  int
	from, to int64
}

func newFleet(t *testing.T, size int) *fleet {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FAULTS_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("repeat with: FAULTS_SEED=%d go test ./... -run '%s$' (in proof/faults/)", seed, t.Name())
	f := &fleet{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), data: filepath.Join(t.TempDir(), "db"), addr: "127.0.0.1:0",
		ids: map[int64]int{}, owner: map[int64]int{}, uses: map[int][]use{},
	}
	f.heard.L = &f.mu
	f.serve()
	t.Cleanup(f.end)
	ctx := t.Context()
	if err := createTable(ctx, "http://"+f.addr); err != nil {
		t.Fatal(err)
	}
	if _, err := leasepool.Open(f.store(), "orders").Seed(ctx, leasepool.Spec{Size: size}); err != nil {
		t.Fatal(err)
	}
	return f
}

// serve starts the server. If the server ran before, it gets its previous address and data.
func (f *fleet) serve() {
	server, err := embeddeddb.New(embeddeddb.Options{Data: f.data})
	if err != nil {
		f.t.Fatal(err)
	}
	endpoint, err := server.Listen(f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.server, f.addr = server, strings.TrimPrefix(endpoint, "http://")
}

// unserve stops the server.
func (f *fleet) unserve() {
	if f.server == nil {
		return
	}
	if err := f.server.Close(); err != nil {
		f.t.Error(err)
	}
	f.server = nil
}

func (f *fleet) store() lease.Store {
	s, err := lease.Open(f.t.Context(), "leases", "http://"+f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// start starts a worker that connects to addr, or to the server itself if addr is "".
func (f *fleet) start(binary, addr string, args ...string) *worker {
	f.t.Helper()
	if addr == "" {
		addr = f.addr
	}
	f.mu.Lock()
	w := &worker{fleet: f, number: len(f.workers) + 1, node: -1, lines: map[string]int{}}
	f.workers = append(f.workers, w)
	f.mu.Unlock()
	w.cmd = exec.Command(binary, append([]string{"-endpoint", "http://" + addr, "-ttl", ttl.String()}, args...)...)
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	w.stdin = in
	if err := w.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go w.listen(out)
	return w
}

// listen reads a worker's lines until the worker ends. It ignores a last line without a newline,
// because a kill has cut it off.
func (w *worker) listen(out io.Reader) {
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		w.mu.Lock()
		w.hear(strings.TrimSpace(line))
		w.heard.Broadcast()
		w.mu.Unlock()
	}
	_ = w.cmd.Wait() // the error describes only how the worker ended, which the test does not need
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.heard.Broadcast()
}

func (w *worker) hear(line string) {
	words := strings.Fields(line)
	w.lines[words[0]]++
	switch words[0] {
	case "ids":
		for _, word := range words[1:] {
			id, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				w.breaks("%q is not an ID", word)
				continue
			}
			if other, twice := w.fleet.ids[id]; twice {
				w.breaks("ID %d was made by worker %d and by worker %d", id, other, w.number)
			}
			w.fleet.ids[id] = w.number
			// The lowest 12 bits are the sequence. The other bits are the millisecond and the node
			// ID.
			if other, ok := w.owner[id>>12]; ok && other != w.number {
				w.breaks("a millisecond of node %d was stamped by worker %d and by worker %d", id>>12&1023, other, w.number)
			}
			w.owner[id>>12] = w.number
			w.ids++
		}
		return
	case "use":
		u := use{who: w.number, version: number(words[2]), from: int64(number(words[3])), to: int64(number(words[4]))}
		w.uses[number(words[1])] = append(w.uses[number(words[1])], u)
		return
	case "claimed":
		w.node, w.version = number(words[1]), number(words[2])
	}
	w.last = line
	w.recent = append(w.recent, time.Now().Format("05.000 ")+line)
	if len(w.recent) > 40 {
		w.recent = w.recent[1:]
	}
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}

func (f *fleet) breaks(format string, args ...any) {
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// until waits until ok returns true. It calls ok after each line of any worker, with the lock
// held.
func (f *fleet) until(what string, ok func() bool) {
	f.t.Helper()
	const limit = time.Minute
	late := false
	timer := time.AfterFunc(limit, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		late = true
		f.heard.Broadcast()
	})
	defer timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for !ok() {
		if late || len(f.broken) > 0 {
			f.describe()
			f.t.Fatalf("no %s within %v; broken: %v", what, limit, f.broken)
		}
		f.heard.Wait()
	}
}

func (f *fleet) describe() {
	for _, w := range f.workers {
		if !w.ended {
			f.t.Logf("worker %d, node %d, version %d, %d IDs, frozen %v:\n%s", w.number, w.node, w.version, w.ids, w.frozen, strings.Join(w.recent[max(0, len(w.recent)-12):], "\n"))
		}
	}
}

// more waits until a worker has written n more lines of a kind.
func (w *worker) more(kind string, n int) {
	w.t.Helper()
	w.mu.Lock()
	want := w.lines[kind] + n
	w.mu.Unlock()
	w.until(fmt.Sprintf("%d lines of %q by worker %d", want, kind, w.number), func() bool { return w.lines[kind] >= want })
}

// after calls act, and waits until the worker has written a line of a kind since then.
func (w *worker) after(kind string, act func()) {
	w.t.Helper()
	before := w.count(kind)
	act()
	w.until(fmt.Sprintf("%q by worker %d", kind, w.number), func() bool { return w.lines[kind] > before })
}

// count returns how many lines of a kind a worker has written.
func (w *worker) count(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[kind]
}

// held returns the node ID and the version of the worker's last claim.
func (w *worker) held() (node, version int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node, w.version
}

func (w *worker) order(line string) {
	if _, err := io.WriteString(w.stdin, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

// signal sends a signal to the worker.
func (w *worker) signal(s os.Signal) {
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatalf("worker %d: %v", w.number, err)
	}
}

// kill ends a worker with SIGKILL.
func (w *worker) kill() {
	w.signal(os.Kill)
	w.until(fmt.Sprintf("end of worker %d", w.number), func() bool { return w.ended })
}

// stop tells a worker to release its node ID and to end, and waits for the end.
func (w *worker) stop() {
	w.order("stop")
	w.until(fmt.Sprintf("end of worker %d", w.number), func() bool { return w.ended })
}

// end kills the remaining workers and judges everything that was reported.
func (f *fleet) end() {
	f.mu.Lock()
	left := append([]*worker(nil), f.workers...)
	f.mu.Unlock()
	for _, w := range left {
		_ = w.cmd.Process.Kill() // the worker may have ended already
	}
	f.mu.Lock()
	for _, w := range left {
		for !w.ended {
			f.heard.Wait()
		}
	}
	defer f.mu.Unlock()
	f.unserve()
	if len(f.broken) > 0 {
		f.t.Errorf("%d promises broken: %s", len(f.broken), strings.Join(f.broken[:min(5, len(f.broken))], "; "))
	}
	uses := f.judgeUses()
	f.t.Logf("%d workers, %d IDs, %d milliseconds, %d uses of the lease", len(f.workers), len(f.ids), len(f.owner), uses)
}

// judgeUses checks that no two processes relied on the same node ID at the same time, and that
// versions increased: every use of an older version must have begun before any use of a newer
// version ended.
func (f *fleet) judgeUses() (n int) {
	for node, uses := range f.uses {
		n += len(uses)
		first := map[int]use{} // for each version, the use that ended first
		for _, u := range uses {
			if g, ok := first[u.version]; !ok || u.to < g.to {
				first[u.version] = u
			}
		}
		for _, u := range uses {
			for _, newer := range first {
				if newer.version > u.version && u.from > newer.to {
					f.t.Errorf("node %d was used with version %d by worker %d, %v after worker %d used it with version %d",
						node, u.version, u.who, time.Duration(u.from-newer.to), newer.who, newer.version)
				}
				if newer.version == u.version && newer.who != u.who {
					f.t.Errorf("node %d, version %d: used by worker %d and by worker %d", node, u.version, u.who, newer.who)
				}
			}
		}
	}
	return n
}

// item reads a node ID's item directly, not through a proxy.
func (f *fleet) item(node int) lease.Lease {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	l, err := f.store().Get(ctx, "orders", node)
	if err != nil || l == nil {
		f.t.Fatal(l, err)
	}
	return lease.Lease(*l)
}
