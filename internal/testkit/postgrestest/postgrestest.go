//go:build unix

// Package postgrestest provides tests with a real PostgreSQL, through the module
// embedded-postgres.
//
// The server is started by a child process, which is another instance of the test binary.
// PostgreSQL refuses to be started by root, so if the test runs as root, the child runs as an
// unprivileged user. The child stops the server when its standard input ends, which happens
// even if the test is killed.
package postgrestest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	postgres "github.com/fergusstrange/embedded-postgres"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

const (
	// envChild is the variable that holds the directory in which the child keeps its server.
	envChild = "NODELEASE_POSTGRES_CHILD"
	// unprivileged is the ID of the user "nobody" on Linux; any user other than root would do.
	unprivileged = 65534
	startLimit   = time.Minute
)

// Main is called by TestMain. It runs the tests or, in the child, the server.
func Main(m *testing.M) int {
	dir := os.Getenv(envChild)
	if dir == "" {
		return m.Run()
	}
	if err := serve(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serve runs the server until standard input ends.
func serve(dir string) error {
	// Another process may take the free port before the server does. The start then fails and
	// is tried again.
	var err error
	for range 3 {
		var port uint32
		if port, err = freePort(); err != nil {
			return err
		}
		server := postgres.NewDatabase(postgres.DefaultConfig().
			Port(port).BinariesPath(filepath.Join(dir, "server")).RuntimePath(filepath.Join(dir, "run")).Logger(io.Discard).StartTimeout(startLimit).
			StartParameters(map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}))
		if err = server.Start(); err != nil {
			continue
		}
		fmt.Printf("postgresql://postgres:postgres@127.0.0.1:%d/postgres?sslmode=disable\n", port)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return server.Stop()
	}
	return err
}

func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port), nil
}

// Start starts a server that ends with the test, and returns its URL. If the binaries
// were not downloaded, the test is skipped with a message; in CI, or with
// NODELEASE_REQUIRE_EMULATORS=1, it fails.
func Start(tb testing.TB) string {
	tb.Helper()
	missing := func(format string, args ...any) {
		tb.Helper()
		dynamotest.Missing(tb, "NOT TESTED against PostgreSQL: "+fmt.Sprintf(format, args...))
	}
	programs, err := filepath.Glob(filepath.Join(root(), ".cache", "postgres", "*", "bin", "pg_ctl"))
	if err != nil || len(programs) == 0 {
		missing("its binaries are not in .cache/postgres. To download them: scripts/postgres.sh")
	}
	// Everything that the child uses is in a directory that it may enter.
	dir, err := os.MkdirTemp("", "nodelease-postgres-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	server := filepath.Dir(filepath.Dir(programs[0]))
	if err := errors.Join(copyFile(self, filepath.Join(dir, filepath.Base(self))), os.CopyFS(filepath.Join(dir, "server"), os.DirFS(server))); err != nil {
		tb.Fatal(err)
	}
	// The child must not end with the test's context, because it has to stop its server first.
	child := exec.CommandContext(context.Background(), filepath.Join(dir, filepath.Base(self)))
	child.Dir = dir
	child.Env = append(os.Environ(), envChild+"="+dir, "HOME="+dir, "LC_ALL=C")
	child.Stderr = os.Stderr
	if os.Getuid() == 0 {
		if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
			missing("root cannot become another user here: %v", err)
		}
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	}
	stdin, err := child.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := child.Start(); err != nil {
		missing("it does not start: %v", err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	tb.Cleanup(func() {
		_ = stdin.Close()
		if end := child.Wait(); end != nil && err == nil {
			tb.Errorf("PostgreSQL did not stop cleanly: %v", end)
		}
	})
	if err != nil {
		missing("it did not start: see above")
	}
	return strings.TrimSpace(url)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

// root returns the repository's root, including for tests in its submodules.
func root() string {
	dir, _ := os.Getwd()
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "postgres.sh")); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
