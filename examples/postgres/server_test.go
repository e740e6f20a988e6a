//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/postgrestest"
)

// asMember makes the test's own binary run as the program.
const asMember = "TEST_AS_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(asMember) != "" {
		main()
		return
	}
	os.Exit(postgrestest.Main(m))
}

// On a real server, each life of a member has a version of its own.
func TestOnPostgreSQL(t *testing.T) {
	url := postgrestest.Start(t)
	for life := 1; life <= 2; life++ {
		program := exec.CommandContext(t.Context(), os.Args[0], "-name", "orders-1", "-listen", "127.0.0.1:0")
		program.Env = append(os.Environ(), asMember+"=1", "DATABASE_URL="+url)
		program.Stderr = os.Stderr
		out, err := program.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if want := fmt.Sprintf("orders-1 joins, with version %d\n", life); line != want {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
		if err := program.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := program.Wait(); err != nil {
			t.Error(err)
		}
	}
}
