package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// onPage reads the events of a page until a line contains text.
func onPage(t *testing.T, url, text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("%q was never printed: %v", text, lines.Err())
}

func TestUI(t *testing.T) {
	t.Parallel()
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"ui"}, flags...)...); code != 4 || !strings.Contains(stderr, "nodelease seed") {
		t.Errorf("without a pool: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := call(append([]string{"seed", "--size", "300"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	p := start(t, self(append([]string{"ui", "--json"}, flags...)...))
	var s served
	if err := json.Unmarshal([]byte(p.until(t, "url")), &s); err != nil {
		t.Fatal(err)
	}
	onPage(t, s.URL, `"total":[0,300,0,0,0,0,0]`)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, code := p.end(t); code != 0 || rest != "" {
		t.Errorf("exit code %d, %q, want 0 and an end of the output: %s", code, rest, p.stderr)
	}
}

// The demo's page shows the demo's actions on the fleet, and ends with it.
func TestDemoUI(t *testing.T) {
	takesSeconds(t)
	t.Parallel()
	p := start(t, self("demo", "--ui", "--plain", "--tasks", "3", "--ttl", "1s", "--duration", "40s", "--seed", "1"))
	_, url, _ := strings.Cut(p.until(t, " page "), "http")
	onPage(t, "http"+url, `"kind":"kill -9"`)
	onPage(t, "http"+url, `"kind":"SIGSTOP"`)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, code := p.end(t); code != 1 {
		t.Errorf("exit code %d, want 1: %s", code, p.stderr)
	}
	if _, err := http.Get("http" + url); err == nil {
		t.Error("the page still answers")
	}
}
