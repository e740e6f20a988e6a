package main

import (
	"strings"
	"testing"
)

// Every command accepts the ARN of a table, which is required for a table of another account.
func TestTableARN(t *testing.T) {
	t.Parallel()
	flags := database(t, "leases")
	const arn = "arn:aws:dynamodb:us-east-1:000000000000:table/leases"
	for i, f := range flags {
		flags[i] = strings.Replace(f, "leases", arn, 1)
	}
	for _, command := range [][]string{
		{"seed", "--size", "4"}, {"list"}, {"stats"}, {"doctor"}, {"pools"}, {"inspect", "1"}, {"resize", "--size", "8", "--yes"},
		{"reap", "--no-wait", "--yes"},
	} {
		args := append(command, flags...)
		if code, stdout, stderr := call(args...); code != 0 {
			t.Errorf("%s: exit code %d, want 0: %s%s", command[0], code, stdout, stderr)
		}
	}
	// An agent accepts the ARN in Config.Table.
	p := start(t, self(append([]string{"exec"}, append(flags, "--", "true")...)...))
	if out, code := p.end(t); code != 0 {
		t.Errorf("exec: exit code %d, want 0: %s%s", code, out, p.stderr)
	}
	if code, _, stderr := call(append([]string{"init"}, flags...)...); code != 2 || !strings.Contains(stderr, "created by name") {
		t.Errorf("init: exit code %d, want 2 and the reason: %s", code, stderr)
	}
	if code, _, stderr := call("list", "--pool", "orders", "--table", "arn:aws:sqs:us-east-1:000000000000:leases"); code != 2 || !strings.Contains(stderr, "or an ARN such as") {
		t.Errorf("another ARN: exit code %d, want 2 and the reason: %s", code, stderr)
	}
}

// The commands that create a production table can be copied.
func TestCommandsThatCreateATable(t *testing.T) {
	code, stdout, stderr := call("init", "--print", "aws", "--table", "leases")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if code != 0 || len(lines) != 3 || lines[1] != "aws dynamodb wait table-exists --table-name leases" || strings.Contains(stdout, `\`) {
		t.Errorf("got exit code %d, %q%s, want three commands without an escape", code, lines, stderr)
	}
}

// serve --healthcheck, the command for a container's health check, works over TCP and a Unix socket.
func TestServeHealthcheck(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "unix:" + t.TempDir() + "/s"} {
		p, said, flags := serveOn(t, "--listen", listen)
		address := strings.TrimPrefix(said.Listen, "http://")
		if code, _, stderr := call("serve", "--healthcheck", "--listen", address); code != 0 {
			t.Errorf("%s: exit code %d, want 0: %s", listen, code, stderr)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.end(t)
		if code, _, stderr := call("serve", "--healthcheck", "--listen", address); code != 1 || !strings.Contains(stderr, "no sidecar answers") {
			t.Errorf("%s is dead (%v): exit code %d, want 1 and the reason: %s", listen, flags, code, stderr)
		}
	}
}
