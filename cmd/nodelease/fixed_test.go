package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// serve with a fixed node ID answers without any table, and reports that its node ID is fixed.
func TestServeFixed(t *testing.T) {
	t.Parallel()
	p := start(t, self("serve", "--json", "--listen", "127.0.0.1:0", "--fixed", "5", "--layout", "js53"))
	var said serving
	if err := json.Unmarshal([]byte(p.until(t, "listen")), &said); err != nil {
		t.Fatal(err)
	}
	if said.NodeID != 5 || said.Version != 0 || !said.Fixed {
		t.Errorf("said %+v, want node 5 with version 0, fixed", said)
	}
	for _, ask := range [][2]string{ // the metrics come last, since they count the requests before them
		{"GET /v1/node", `"node_id":5,"version":0,"ids":"number","fixed":true`},
		{"GET /v1/lease", `"error":"fixed"`},
		{"GET /livez", `"status":"fixed"`},
		{"GET /readyz", `"status":"fixed"`},
		{"GET /readyz?need=lease", "has no lease"},
		{"POST /v1/ids?n=3", `{"ids":[`},
		{"GET /metrics", "nodelease_http_requests_total"},
	} {
		path, want := ask[0], ask[1]
		method, path, _ := strings.Cut(path, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, said.Listen+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s %s: got %.300s, %v; want %s", method, path, body, err, want)
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, code := p.end(t); code != 0 || !strings.Contains(p.stderr.String(), "fixed") {
		t.Errorf("exit code %d, stderr %s; want 0 and a warning that the node ID is fixed", code, p.stderr.String())
	}
}

// exec with a fixed node ID hands it to the program, without a version, a pool or a deadline
// file.
func TestExecFixed(t *testing.T) {
	t.Parallel()
	cmd := self("exec", "--fixed", "7", "--layout", "default", "--", "sh", "-c", "echo $NODELEASE_NODE_ID/$NODELEASE_VERSION/$NODELEASE_POOL/$NODELEASE_DEADLINE_FILE; exit 3")
	cmd.Env = append(os.Environ(), cmd.Env...)
	cmd.Env = append(cmd.Env, "NODELEASE_POOL=orders", "NODELEASE_TABLE=leases", "NODELEASE_DEADLINE_FILE=/run/other")
	p := start(t, cmd)
	if line := p.until(t, "/"); strings.TrimSpace(line) != "7/0//" {
		t.Errorf("the program got %q, want 7/0//", line)
	}
	if _, code := p.end(t); code != 3 {
		t.Errorf("exit code %d, want the program's 3", code)
	}
}

// A fixed node ID is requested explicitly, with a layout, and never together with a lease.
func TestFixedUsage(t *testing.T) {
	for args, want := range map[string]string{
		"serve --fixed 5": "--fixed needs --layout",
		"serve --fixed 5 --layout js53 --table leases":    "--fixed and --table contradict",
		"serve --fixed 5 --layout js53 --pool orders":     "--fixed and --pool contradict",
		"serve --fixed 5 --layout js53 --ttl 20s":         "--fixed and --ttl contradict",
		"serve --fixed 64 --layout js53 --max-ttl 1h":     "--fixed and --max-ttl contradict",
		"serve --fixed 64 --layout js53 --renew-every 1s": "--fixed and --renew-every contradict",
		"serve --fixed 64 --layout js53":                  "use 0 to 63",
		"serve --fixed -1 --layout js53":                  "use 0 to 63",
		"serve --fixed seven --layout js53":               `--fixed "seven": use a node ID`,
		"exec --fixed 5 -- true":                          "--fixed needs --layout",
		"exec --fixed 5 --layout js53 --wait 5s -- true":  "--fixed and --wait contradict",
		"exec --layout js53 --table t --pool p -- true":   "--layout is for --fixed",
	} {
		code, _, stderr := call(strings.Fields(args)...)
		wantCode := 2
		if strings.HasPrefix(args, "exec") {
			wantCode = 112
		}
		if code != wantCode || !strings.Contains(stderr, want) {
			t.Errorf("%s: got exit code %d, %s; want %d and %q", args, code, stderr, wantCode, want)
		}
	}
}

// A value from a shell variable that is not set is not taken for a flag that was omitted.
func TestEmptyValues(t *testing.T) {
	table := []string{"--table", "leases", "--pool", "orders", "--endpoint", "http://127.0.0.1:1", "--timeout", "1s"}
	for _, c := range []struct {
		args []string
		flag string
	}{
		{[]string{"seed", "--floor", ""}, "--floor"},
		{[]string{"resize", "--size", "8", "--floor="}, "--floor"},
		{[]string{"raise", "--yes", "--to", ""}, "--to"},
		{[]string{"serve", "--layout", "js53", "--fixed", ""}, "--fixed"},
		{[]string{"exec", "--layout", "js53", "--fixed", "", "--", "true"}, "--fixed"},
	} {
		code, _, stderr := call(append(append(c.args[:1:1], table...), c.args[1:]...)...)
		if code%110 != codeUsage || !strings.Contains(stderr, c.flag+" needs a value") {
			t.Errorf("%q: got exit code %d, %s; want a usage error about %s", c.args, code, stderr, c.flag)
		}
	}
}
