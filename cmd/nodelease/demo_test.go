package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// keys returns the keys of text, which is one JSON object, in order.
func keys(t *testing.T, text string) []string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("got %q, %v, want one line with one object", text, err)
	}
	return slices.Sorted(maps.Keys(object))
}

// program is this program as a process. Its stdout is read line by line.
type program struct {
	*exec.Cmd
	lines  *bufio.Scanner
	stderr *strings.Builder
}

// self returns a command that runs this program with arguments.
func self(args ...string) *exec.Cmd {
	binary, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exec.Command(binary, args...)
}

// hang is how long a test waits for an event that must come.
const hang = 2 * time.Minute

// launch starts a program. If the program hangs, its processes are shown and killed, so
// that the test continues and fails.
func launch(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Env = append(cmd.Environ(), asProgram+"=1", marker(t))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(2*hang, func() {
		t.Errorf("%q still runs after %v", cmd.Args, 2*hang)
		showAndKill(t)
	})
	t.Cleanup(func() { watchdog.Stop() })
}

// leavesNothing fails the test if a process of a program is left when the test ends.
func leavesNothing(t *testing.T, cmd *exec.Cmd) {
	t.Cleanup(func() {
		cmd.Process.Kill() // it has already ended, unless the test failed
		checkGone(t)
	})
}

// start launches a program whose output the test reads. The test fails if a process of the
// program is left when the test ends.
func start(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{Cmd: cmd, stderr: &strings.Builder{}}
	p.Cmd.Stderr = p.stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	launch(t, cmd)
	leavesNothing(t, cmd)
	return p
}

// until reads lines until one contains text, and returns that line.
func (p *program) until(t *testing.T, text string) string {
	t.Helper()
	var all []string
	for p.lines.Scan() {
		all = append(all, p.lines.Text())
		if strings.Contains(p.lines.Text(), text) {
			return p.lines.Text()
		}
	}
	t.Fatalf("%q was never printed, got\n%s\n%s", text, strings.Join(all, "\n"), p.stderr)
	return ""
}

// end reads to the end and returns the rest of stdout and the exit code.
func (p *program) end(t *testing.T) (rest string, code int) {
	t.Helper()
	for p.lines.Scan() {
		rest += p.lines.Text() + "\n"
	}
	if err := p.Wait(); err != nil && p.ProcessState == nil {
		t.Fatal(err)
	}
	return rest, p.ProcessState.ExitCode()
}

// summary runs a demo with --json to its end.
func summary(t *testing.T, cmd *exec.Cmd) (s demo.Summary, code int, p *program) {
	t.Helper()
	p = start(t, cmd)
	out, code := p.end(t)
	want := []string{"claims", "duplicates", "freezes", "ids", "kills", "lost", "renewals", "seconds", "stopped", "suspended", "tasks", "went_on"}
	if got := keys(t, out); !reflect.DeepEqual(got, want) {
		t.Errorf("got the keys %v, want those of demo.json", got)
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	return s, code, p
}

// takesSeconds skips, in a short run, a test that uses real processes and real time.
func takesSeconds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it lasts for seconds: run without -short")
	}
}

func TestDemo(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	s, code, p := summary(t, self("demo", "--json", "--duration", "8s", "--ttl", "1s", "--seed", "1"))
	if code != 0 || s.Duplicates != 0 {
		t.Fatalf("exit code %d, %+v, want 0 and no duplicates\n%s", code, s, p.stderr)
	}
	// A task that wakes after its lease has ended may find out about the loss before it
	// checks its deadline. So in this test, unlike in TestDemoOutage, no task has to be
	// suspended.
	if s.Tasks != 8 || s.IDs < 100_000 || s.Kills < 1 || s.Freezes < 1 || s.Claims < 8 || s.Renewals < 8 || s.Lost < 1 || s.Seconds < 8 {
		t.Errorf("got %+v, want 8 tasks, 100,000 IDs and each kind of event\n%s", s, p.stderr)
	}
	for _, want := range []string{"nodelease demo --seed 1 --duration 8s --ttl 1s", "claimed", "kill -9", "SIGSTOP", "SIGCONT", "SIGTERM", "clock", "so far", "released"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("want %q in\n%s", want, p.stderr)
		}
	}
}

// In an outage, tasks that are old enough keep making IDs. All other tasks stop until the
// outage is over, including a task of the same age that is a member of the cluster.
func TestDemoOutageByAge(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	s, code, p := summary(t, self("demo", "--json", "--outage", "--duration", "40s", "--ttl", "1s", "--tasks", "8", "--seed", "3"))
	told := p.stderr.String()
	if code != 0 || s.Duplicates != 0 || s.WentOn < 2 || s.Stopped < 2 {
		t.Errorf("exit code %d, %+v: want both tasks that continued and tasks that stopped\n%s", code, s, told)
	}
	for _, want := range []string{"s old: IDs for ", "; as a member of the cluster it keeps a short lease", "IDs for another ", "s old, made IDs through the outage", "s old, made no IDs after "} {
		if !strings.Contains(told, want) {
			t.Errorf("want %q in\n%s", want, told)
		}
	}
}

// When the demo's DynamoDB is killed for longer than the lease, the fleet is suspended,
// resumes with the same node IDs, and loses nothing.
func TestDemoOutage(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	tmp := t.TempDir() // other demos run in parallel with this one
	cmd := self("demo", "--json", "--outage", "--duration", "9s", "--ttl", "2s", "--tasks", "3", "--seed", "2")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TMP="+tmp)
	s, code, p := summary(t, cmd)
	if code != 0 || s.Duplicates != 0 || s.Suspended < 3 {
		t.Errorf("exit code %d, %+v, want 0, no duplicates and 3 suspended\n%s", code, s, p.stderr)
	}
	// A task may notice that DynamoDB is down, or up again, before the demo prints it.
	told := p.stderr.String()
	if strings.Count(told, "suspended ") < 3 || strings.Count(told, "resumed ") < 3 || !strings.Contains(told, " back ") || strings.Contains(told, " lost ") {
		t.Errorf("the fleet did not resume its node IDs:\n%s", p.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("files left behind: got %v, want none", left)
	}
}

// If there are more tasks than node IDs, the remaining tasks wait or fail, and claim a node
// ID as soon as one is free.
func TestDemoFiveTasksOnThreeNodeIDs(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	for flag, want := range map[string]string{"--wait=1h": "waiting ", "--no-wait": "exited with code 3: pool exhausted"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			s, code, p := summary(t, self("demo", "--json", "--tasks", "5", "--size", "3", "--duration", "8s", "--ttl", "1s", "--seed", "3", flag))
			if code != 0 || s.Duplicates != 0 || s.Claims < 4 || !strings.Contains(p.stderr.String(), want) {
				t.Errorf("exit code %d, %+v, want 0, no duplicates and 4 claims\n%s", code, s, p.stderr)
			}
		})
	}
}

// Whenever the demo is interrupted, it prints that it was interrupted, and leaves no
// process. The helper start checks that no process is left.
func TestDemoInterrupted(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	for _, test := range []struct {
		signal os.Signal
		at     string
		flag   string
	}{
		{os.Interrupt, "to repeat", "--plain"},
		{syscall.SIGTERM, "server", "--plain"},
		{os.Interrupt, "claimed", "--plain"},
		{syscall.SIGTERM, "SIGSTOP", "--plain"},
		{os.Interrupt, "kill -9 of DynamoDB", "--outage"},
	} {
		t.Run(test.at, func(t *testing.T) {
			t.Parallel()
			// The duration is so long that the demo never ends by itself, even on a slow machine.
			p := start(t, self("demo", "--ttl", "1s", "--duration", "40s", "--seed", "4", test.flag))
			p.until(t, test.at)
			if err := p.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			if rest, code := p.end(t); code != 1 || !strings.Contains(p.stderr.String(), "nodelease: interrupted") {
				t.Errorf("exit code %d, want 1 and the interrupt\n%s%s", code, rest, p.stderr)
			}
		})
	}
}

// When the demo itself is killed, no process is left, not even a frozen task.
func TestDemoKilled(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	p := start(t, self("demo", "--plain", "--ttl", "1s", "--duration", "8s", "--seed", "5"))
	p.until(t, "SIGSTOP")
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(t)
}

func TestDemoPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := start(t, self("demo", "--plain", "--port", port))
	if _, code := p.end(t); code != 1 || !strings.Contains(p.stderr.String(), "127.0.0.1:"+port+`" is in use`) {
		t.Errorf("exit code %d, want 1 and the port: %s", code, p.stderr)
	}
}

// The demo's comparison of IDs finds duplicates. A build with the tag nodelease_unsafe
// makes claims that ignore the holder of a node ID if the environment requests them, and
// the demo reports the duplicates that result. A normal build never makes such claims.
func TestDemoFindsDuplicates(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	normal, err := os.Executable() // was built without the tag
	if err != nil {
		t.Fatal(err)
	}
	unsafe := build(t, "-tags", "nodelease_unsafe")
	for name, test := range map[string]struct {
		binary, ask string
		found       bool
	}{
		"broken":               {unsafe, "1", true},
		"broken, not asked to": {unsafe, "", false},
		"normal, asked to":     {normal, "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(test.binary, "demo", "--json", "--duration", "4s", "--size", "4", "--seed", "6")
			cmd.Env = append(os.Environ(), "NODELEASE_UNSAFE_CLAIMS="+test.ask)
			s, code, p := summary(t, cmd)
			told := strings.Contains(p.stderr.String(), "IDs were made twice")
			if found := s.Duplicates > 0; found != test.found || told != test.found || (code == 1) != test.found {
				t.Errorf("exit code %d, %+v, want 1 only for duplicates\n%s", code, s, p.stderr)
			}
		})
	}
}

// build builds the program.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	sources.Of(t, "internal/demo", "../../internal/protocol/protocoltest") // these have files with the tag nodelease_unsafe
	binary := filepath.Join(t.TempDir(), "nodelease")
	out, err := exec.Command("go", append(append([]string{"build"}, flags...), "-o", binary, ".")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// The dynamodb command creates a table whose data outlives the process.
func TestDynamoDB(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "tables.journal")
	serve := func() (p *program, flags []string) {
		p = start(t, self("dynamodb", "--json", "--table", "leases", "--listen", "127.0.0.1:0", "--data", data))
		var s demo.Serving
		if err := json.Unmarshal([]byte(p.until(t, "endpoint")), &s); err != nil {
			t.Fatal(err)
		}
		return p, []string{"--endpoint", s.Endpoint, "--table", "leases", "--pool", "p"}
	}
	p, flags := serve()
	if code, _, stderr := call(append([]string{"seed", "--size", "3"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	p.Process.Kill()
	p.end(t)
	p, flags = serve()
	if code, stdout, stderr := call(append([]string{"list"}, flags...)...); code != 0 || !strings.Contains(stdout, "3 node IDs") {
		t.Error(stdout, stderr)
	}
	p.Process.Signal(syscall.SIGTERM)
	if _, code := p.end(t); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.stderr)
	}
	if code, _, stderr := call("dynamodb", "--listen", "0.0.0.0:0"); code != codeUsage || !strings.Contains(stderr, "another loopback address") {
		t.Error(code, stderr)
	}
}
