package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// testChild is the argument that makes this test binary a program for exec to run. The
// program reports its signals, and every few milliseconds its clock, over a connection of
// its own. The connection ends when the program dies.
const testChild = "test-child"

// terminalChild is the argument that makes this test binary a program that reads and writes
// on its terminal.
const terminalChild = "terminal-child"

func init() {
	if len(os.Args) > 3 && os.Args[1] == testChild {
		runTestChild(os.Args[2], os.Args[3])
	}
	if len(os.Args) == 2 && os.Args[1] == terminalChild {
		runTerminalChild()
	}
}

// runTerminalChild waits for an interrupt and then reads a line. A shell script would not
// do: a shell that is interrupted between checking its traps and reading continues to read.
func runTerminalChild() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT)
	fmt.Println("ready")
	<-signals
	fmt.Println("interrupted")
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Printf("read %s, and was interrupted again %d times\n", strings.TrimSpace(line), len(signals))
	os.Exit(5)
}

func runTestChild(address, mode string) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		os.Exit(99)
	}
	say := func(format string, args ...any) { fmt.Fprintf(conn, format+"\n", args...) }
	say("hello %s %d %d %s %s", mode, os.Getpid(), os.Getppid(), os.Getenv("NODELEASE_NODE_ID"), os.Getenv("NODELEASE_VERSION"))
	if mode == "parent" || mode == "leaver" {
		self, _ := os.Executable()
		grandchild := exec.Command(self, testChild, address, "stubborn")
		grandchild.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as a daemon does
		if grandchild.Start() != nil {
			os.Exit(98)
		}
	}
	go func() {
		for {
			say("alive %d", time.Now().UnixMilli())
			time.Sleep(5 * time.Millisecond) // the interval of the child's reports; the test waits for them
		}
	}()
	if mode == "leaver" {
		bufio.NewReader(conn).ReadString('\n') // the test sends a line when the child is to exit
		os.Exit(6)
	}
	for s := range signals {
		say("got %v", s)
		if s == syscall.SIGTERM && mode == "obey" {
			os.Exit(7)
		}
	}
}

// stage is the listener to which test children connect and report what happens to them.
type stage struct{ net.Listener }

func newStage(t *testing.T) stage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(hang))
	return stage{l}
}

// actor is a test child, as seen through its connection.
type actor struct {
	net.Conn
	lines        *bufio.Scanner
	pid, parent  int
	node, mode   string
	lastAlive    time.Time
	toldOfSignal []string
}

// enter waits for the next test child.
func (s stage) enter(t *testing.T) *actor {
	t.Helper()
	conn, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(hang))
	a := &actor{Conn: conn, lines: bufio.NewScanner(conn)}
	if !a.lines.Scan() {
		t.Fatal("the process died at once")
	}
	words := strings.Fields(a.lines.Text())
	if len(words) != 6 || words[0] != "hello" {
		t.Fatalf("got %q, want hello and five values", words)
	}
	a.mode, a.node = words[1], words[4]
	a.pid, _ = strconv.Atoi(words[2])
	a.parent, _ = strconv.Atoi(words[3])
	return a
}

// hear reads until the child prints a wanted line; it returns false if the child dies first.
func (a *actor) hear(want string) bool {
	for a.lines.Scan() {
		word, rest, _ := strings.Cut(a.lines.Text(), " ")
		switch word {
		case "alive":
			ms, _ := strconv.ParseInt(rest, 10, 64)
			a.lastAlive = time.UnixMilli(ms)
		case "got":
			a.toldOfSignal = append(a.toldOfSignal, rest)
		}
		if a.lines.Text() == want {
			return true
		}
	}
	return false
}

// end reads until the child dies.
func (a *actor) end(t *testing.T) {
	t.Helper()
	a.hear("")
	if err := a.lines.Err(); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s is still alive: %v", a.mode, err)
	}
}

// execOf starts exec with a test child as its program.
func execOf(t *testing.T, flags []string, s stage, mode string) *program {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"exec"}, flags...)
	return start(t, self(append(args, "--", binary, testChild, s.Addr().String(), mode)...))
}

// The leases are short enough for a test to wait for their end; guard and grace are long
// enough for a busy machine.
const (
	shortGuard = time.Second
	shortGrace = 1800 * time.Millisecond
)

func short(flags []string) []string {
	return append([]string{"--ttl", "10s", "--guard", shortGuard.String(), "--claim-guard", "500ms", "--grace", shortGrace.String()}, flags...)
}

// holder returns the holder of node ID 0 and its expiry.
func holder(t *testing.T, flags []string) (task string, expires time.Time) {
	t.Helper()
	code, stdout, stderr := call(append([]string{"list", "--json"}, flags...)...)
	var l struct {
		Nodes []struct {
			State     string    `json:"state"`
			Task      string    `json:"task"`
			ExpiresAt time.Time `json:"expires_at"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(stdout), &l); err != nil || code != 0 || len(l.Nodes) != 1 {
		t.Fatalf("got %s %s %v, want one node", stdout, stderr, err)
	}
	if l.Nodes[0].State == "free" {
		return "", time.Time{}
	}
	return l.Nodes[0].State, l.Nodes[0].ExpiresAt
}

// onePool creates a table with a pool of one node ID, and returns the flags that name it.
func onePool(t *testing.T) (flags []string) {
	t.Helper()
	flags, _ = breakable(t, 1)
	return flags
}

// breakable creates a table with a pool. The returned function makes the database stop
// answering, or answer again.
func breakable(t *testing.T, size int) (flags []string, outage func(bool)) {
	t.Helper()
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if out.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		db.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.Close(); db.Close() })
	if err := demo.CreateTable(t.Context(), server.URL, "leases"); err != nil {
		t.Fatal(err)
	}
	flags = []string{"--endpoint", server.URL, "--table", "leases", "--pool", "orders"}
	if code, _, stderr := call(append([]string{"seed", "--size", strconv.Itoa(size)}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	return flags, out.Store
}

func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

func TestExecExitCodes(t *testing.T) {
	t.Parallel()
	flags := onePool(t)
	for _, test := range []struct {
		program []string
		want    int
		stdout  string
		stderr  string
	}{
		{[]string{"sh", "-c", "echo $NODELEASE_NODE_ID $NODELEASE_VERSION $NODELEASE_POOL"}, 0, "0 1 orders\n", ""},
		{[]string{"sh", "-c", "echo $NODELEASE_VERSION; exit 7"}, 7, "2\n", ""},
		{[]string{"sh", "-c", "exit 125"}, 125, "", ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, "", ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, "", ""},
		{[]string{"printf", "%s-%s", "--ttl", "\xff\n"}, 0, "--ttl-\xff\n", ""},
		{[]string{"no-such-program"}, 127, "", `"no-such-program" cannot be run`},
		{[]string{"/no/such/program"}, 127, "", "cannot be run"},
		{[]string{"/etc/passwd"}, 126, "", "cannot be run"},
		{[]string{"/"}, 126, "", "cannot be run"},
		{nil, 112, "", "which program?"},
		{[]string{"--frob", "true"}, 112, "", "unknown flag --frob"},
		{[]string{"--grace", "10s", "true"}, 112, "", "--grace 10s: use up to"},
		{[]string{"--pool", "empty", "true"}, 114, "", "is not seeded"},
	} {
		t.Run(strings.Join(test.program, " "), func(t *testing.T) {
			args := append([]string{"exec"}, flags...)
			if len(test.program) > 0 && !strings.HasPrefix(test.program[0], "--") {
				args = append(args, "--")
			}
			p := start(t, self(append(args, test.program...)...))
			stdout, code := p.end(t)
			if code != test.want || stdout != test.stdout || !strings.Contains(p.stderr.String(), test.stderr) || test.stderr == "" && p.stderr.String() != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, p.stderr)
			}
			if state, _ := holder(t, flags); state != "" {
				t.Errorf("the node ID is %s, want it free", state)
			}
		})
	}
}

// A script whose interpreter does not exist fails in the guardian, with one error.
func TestExecCannotRun(t *testing.T) {
	t.Parallel()
	flags := onePool(t)
	script := t.TempDir() + "/script"
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := start(t, self(append(append([]string{"exec"}, flags...), "--", script)...))
	if _, code := p.end(t); code != 127 || strings.Count(p.stderr.String(), "cannot be run") != 1 {
		t.Errorf("exit code %d, want 127 and one error: %s", code, p.stderr)
	}
	if state, _ := holder(t, flags); state != "" {
		t.Errorf("the node ID is %s, want it free", state)
	}
}

func TestExecSignals(t *testing.T) {
	t.Parallel()
	// The test's parent may ignore SIGHUP (nohup), and programs would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	flags, s := onePool(t), newStage(t)
	p := execOf(t, flags, s, "obey")
	a := s.enter(t)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		send(t, p.Process.Pid, sig)
		if !a.hear("got " + sig.String()) {
			t.Fatalf("%v was not received: %s", sig, p.stderr)
		}
	}
	if state, _ := holder(t, flags); state != "held" {
		t.Errorf("the node ID is %q, want held", state)
	}
	send(t, p.Process.Pid, syscall.SIGTERM)
	a.end(t)
	if _, code := p.end(t); code != 7 || len(a.toldOfSignal) != 3 {
		t.Errorf("exit code %d, signals %v, want 7 and all three: %s", code, a.toldOfSignal, p.stderr)
	}
	if state, _ := holder(t, flags); state != "" {
		t.Errorf("the node ID is %s, want it free", state)
	}
}

// A signal that comes before the program was started ends exec.
func TestExecInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // as in TestExecSignals
	flags, s := onePool(t), newStage(t)
	execOf(t, flags, s, "obey")
	s.enter(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		interruptedWhileWaiting(t, flags, sig)
	}
}

func interruptedWhileWaiting(t *testing.T, flags []string, sig syscall.Signal) {
	t.Helper()
	p := self(append(append([]string{"exec", "--wait", "1h"}, flags...), "--", "true")...)
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	launch(t, p)
	if line, _ := bufio.NewReader(stderr).ReadString('\n'); !strings.Contains(line, "waiting") {
		t.Errorf("got %q, want a line about waiting", line)
	}
	send(t, p.Process.Pid, sig)
	io.Copy(io.Discard, stderr)
	if p.Wait(); p.ProcessState.ExitCode() != 128+int(sig) {
		t.Errorf("exit code %d after %v, want %d", p.ProcessState.ExitCode(), sig, 128+int(sig))
	}
}

// No child runs once another process may have the node ID, whichever process is frozen, and
// even if the database is down. The child gets SIGTERM, and is killed at the deadline. All
// cases run side by side.
func TestExecDeadline(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	type scene struct {
		name, mode                    string
		self, child, guardian, outage bool

		program *program
		actors  []*actor
		flags   []string
		out     func(bool)
		expires time.Time
	}
	scenes := []*scene{
		{name: "frozen exec, obedient child", mode: "obey", self: true},
		{name: "frozen exec, stubborn child", mode: "stubborn", self: true},
		{name: "frozen exec, child with children", mode: "parent", self: true},
		{name: "frozen exec and child", mode: "stubborn", self: true, child: true},
		{name: "frozen guardian", mode: "stubborn", guardian: true, outage: true},
		{name: "outage, obedient child", mode: "obey", outage: true},
		{name: "outage, stubborn child", mode: "stubborn", outage: true},
	}
	for _, s := range scenes {
		stage := newStage(t)
		s.flags, s.out = breakable(t, 1)
		s.program = execOf(t, short(s.flags), stage, s.mode)
		s.actors = []*actor{stage.enter(t)}
		if s.mode == "parent" {
			s.actors = append(s.actors, stage.enter(t))
		}
	}
	for _, s := range scenes {
		if s.self {
			send(t, s.program.Process.Pid, syscall.SIGSTOP)
			looked := time.Now()
			if _, s.expires = holder(t, s.flags); s.expires.IsZero() { // exec missed its own deadline, and has released the node ID
				s.expires = looked
			}
		}
		if s.child {
			send(t, s.actors[0].pid, syscall.SIGSTOP)
		}
		if s.guardian {
			send(t, s.actors[0].parent, syscall.SIGSTOP)
		}
		s.out(s.outage)
	}
	for _, s := range scenes {
		for _, a := range s.actors {
			a.end(t) // the child dies although some processes are still frozen
			if s.self {
				a.judge(t, s.name, s.expires, !s.child)
			}
		}
		if s.self {
			send(t, s.program.Process.Pid, syscall.SIGCONT)
		}
		s.out(false) // so that the node ID can be released
		if _, code := s.program.end(t); code != 117 || !strings.Contains(s.program.stderr.String(), "was ended, since its lease on node 0 of pool orders was lost or not renewed in time") {
			t.Errorf("%s: exit code %d, %s", s.name, code, s.program.stderr)
		}
	}
}

// judge checks that a child got SIGTERM and died in time, by the child's own clock. If the
// child outlived its lease by less than ten seconds, judge only logs that, because a busy
// machine may not have run the guardian in time.
func (a *actor) judge(t *testing.T, name string, expires time.Time, hears bool) {
	t.Helper()
	switch told := len(a.toldOfSignal) > 0; {
	case a.lastAlive.After(expires.Add(10 * time.Second)):
		t.Errorf("%s: %s was alive at %v, the lease expired at %v", name, a.mode, a.lastAlive, expires)
	case !a.lastAlive.Before(expires):
		t.Logf("%s: this machine is too busy: %s was alive at %v, the lease expired at %v", name, a.mode, a.lastAlive, expires)
	case hears && !told && a.lastAlive.After(expires.Add(-shortGuard-shortGrace/2)):
		t.Errorf("%s: %s got no SIGTERM until %v; the lease expired at %v", name, a.mode, a.lastAlive, expires)
	}
}

// Whichever of exec, guardian and child is killed, no process is left, whatever the
// process's group and session. The helper start checks that.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"exec", "frozen exec", "guardian", "child"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			flags, s := onePool(t), newStage(t)
			p := execOf(t, append([]string{"--grace", shortGrace.String()}, flags...), s, "parent")
			a := s.enter(t)
			b := s.enter(t)
			want := 111
			switch who {
			case "frozen exec":
				send(t, p.Process.Pid, syscall.SIGSTOP)
				fallthrough
			case "exec":
				send(t, p.Process.Pid, syscall.SIGKILL)
				want = -1
			case "guardian":
				send(t, a.parent, syscall.SIGKILL)
			case "child":
				send(t, a.pid, syscall.SIGKILL)
				want = 137
			}
			a.end(t)
			b.end(t)
			if _, code := p.end(t); code != want {
				t.Errorf("exit code %d, %s", code, p.stderr)
			}
			if state, _ := holder(t, flags); want > 0 && state != "" {
				t.Errorf("the node ID is %s, want it free", state)
			}
		})
	}
}

// Processes that a child leaves behind get SIGTERM, and the node ID is released only when
// they have ended.
func TestExecLeftBehind(t *testing.T) {
	t.Parallel()
	flags, s := onePool(t), newStage(t)
	p := execOf(t, append([]string{"--grace", "6s"}, flags...), s, "leaver")
	a := s.enter(t)
	b := s.enter(t)
	fmt.Fprintln(a, "leave")
	a.end(t)
	if !b.hear("got " + syscall.SIGTERM.String()) {
		t.Error("the processes left behind got no SIGTERM")
	}
	if state, _ := holder(t, flags); state != "held" {
		t.Errorf("while a process is left, the node ID is %q", state)
	}
	send(t, b.pid, syscall.SIGKILL)
	b.end(t)
	if _, code := p.end(t); code != 6 {
		t.Errorf("exit code %d, want 6: %s", code, p.stderr)
	}
	if state, _ := holder(t, flags); state != "" {
		t.Errorf("the node ID is %s, want it free", state)
	}
}

// When an operator frees the node ID by force, the child gets SIGTERM at once, long before
// its deadline.
func TestExecLost(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	flags, s := onePool(t), newStage(t)
	p := execOf(t, append([]string{"--ttl", "10s", "--grace", "3s"}, flags...), s, "obey")
	a := s.enter(t)
	if code, _, stderr := call(append([]string{"release", "0", "--yes", "--version", "1"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	a.end(t)
	if len(a.toldOfSignal) != 1 {
		t.Errorf("signals %v, want 1", a.toldOfSignal)
	}
	if _, code := p.end(t); code != 117 || !strings.Contains(p.stderr.String(), "lost") {
		t.Errorf("exit code %d, want 117 and the loss: %s", code, p.stderr)
	}
}

// On a terminal the child is in the same job as exec, so Ctrl-C reaches it once, and it may
// read from the terminal.
func TestExecTerminal(t *testing.T) {
	t.Parallel()
	flags := onePool(t)
	near, far := terminal(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := self(append(append([]string{"exec"}, flags...), "--", binary, terminalChild)...)
	p.Stdin, p.Stdout, p.Stderr = far, far, far
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	launch(t, p)
	leavesNothing(t, p)
	far.Close()
	said := bufio.NewScanner(near)
	for _, step := range []struct{ want, then string }{{"ready", "\x03"}, {"interrupted", "hello\n"}, {"read hello, and was interrupted again 0 times", ""}} {
		var all []string
		for !strings.Contains(said.Text(), step.want) {
			if !said.Scan() {
				t.Fatalf("%q was never printed, got %q: %v", step.want, all, said.Err())
			}
			all = append(all, said.Text())
		}
		io.WriteString(near, step.then)
	}
	if p.Wait(); p.ProcessState.ExitCode() != 5 {
		t.Errorf("exit code %d, want 5", p.ProcessState.ExitCode())
	}
}

// terminal returns both ends of a new terminal.
func terminal(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		dynamotest.Missing(t, "NOT TESTED: exec on a terminal: "+err.Error())
	}
	t.Cleanup(func() { near.Close() })
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	far, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		dynamotest.Missing(t, "NOT TESTED: exec on a terminal: "+err.Error())
	}
	return near, far
}
