package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// serveOn starts serve on a new pool of four node IDs, and returns what it prints when it
// listens.
func serveOn(t *testing.T, args ...string) (p *program, said serving, flags []string) {
	t.Helper()
	flags = database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "4"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	p = start(t, self(append(append([]string{"serve", "--json"}, args...), flags...)...))
	if err := json.Unmarshal([]byte(p.until(t, "listen")), &said); err != nil {
		t.Fatal(err)
	}
	return p, said, flags
}

// serve answers requests, drains on SIGTERM, and leaves its node ID free.
func TestServe(t *testing.T) {
	t.Parallel()
	p, said, flags := serveOn(t, "--listen", "127.0.0.1:0", "--layout", "40/3/10")
	response, err := http.Post(said.Listen+"/v1/ids?n=1000", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		IDs []uint64 `json:"ids"` // numbers: the layout has 53 bits
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.IDs) != 1000 {
		t.Fatal(len(answer.IDs), err)
	}
	for i, id := range answer.IDs {
		if int(id>>10&7) != said.NodeID || id >= 1<<53 || i > 0 && id <= answer.IDs[i-1] {
			t.Fatalf("got ID %d after %v, want a larger one of 53 bits and this node", id, answer.IDs[:i])
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, code := p.end(t); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.stderr)
	}
	if _, stdout, _ := call(append([]string{"list"}, flags...)...); !strings.Contains(stdout, "0 held") {
		t.Error(stdout)
	}
}

func TestServeUsage(t *testing.T) {
	flags := database(t, "leases")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--listen 0.0.0.0:0":       "--allow-remote if that is intended",
		"--listen :0":              "--allow-remote if that is intended",
		"--listen [::]:0":          "--allow-remote if that is intended",
		"--listen 192.0.2.1:0":     "--allow-remote if that is intended",
		"--listen example.org:0":   "--allow-remote if that is intended",
		"--listen 127.0.0.1:99999": `"99999" is not a port: use 1 to 65535`,
		"--listen 7373":            "use an address such as 127.0.0.1:7373",
		"--listen unix:":           "use the path of a file",
		"--listen unix:@abstract":  "use the path of a file",
		"--listen unix:" + file:    "a file that is not a socket is in the way",
		"--layout 41/10":           "or bits such as 40/3/10",
		"--layout 41/10/x":         `"x" is not a number of bits`,
		"--layout 41/10/13":        "use 63",
		"--socket-mode 888":        "use permissions such as 0660",
		"--listen 127.0.0.1:0":     "is not seeded",
		"surplus":                  "takes no arguments",
	} {
		code, stdout, stderr := call(append(append([]string{"serve"}, flags...), strings.Fields(args)...)...)
		if usage := !strings.Contains(stderr, "seeded") && !strings.Contains(stderr, "not a socket"); (code == 2) != usage || code == 0 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %s", args, code, stdout, stderr)
		}
	}
}

// The clients in examples get IDs from the sidecar that no other client gets, over TCP and
// over a Unix socket, and report errors with the remedy.
func TestServeClients(t *testing.T) {
	t.Parallel()
	sources.Of(t, "../../examples/python", "../../examples/node")
	for name, program := range map[string][]string{
		"python": {"python3", "example.py"},
		"node":   {"node", "example.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(program[0]); err != nil {
				dynamotest.Missing(t, fmt.Sprintf("NOT TESTED: the client in examples/%s: %v", name, err))
			}
			socket := "unix:" + filepath.Join(t.TempDir(), "s")
			addresses := []string{"127.0.0.1:0", socket}
			if six, err := net.Listen("tcp", "[::1]:0"); err == nil {
				six.Close()
				addresses = append(addresses, "[::1]:0")
			}
			for _, listen := range addresses {
				p, said, _ := serveOn(t, "--listen", listen)
				client := exec.Command(program[0], program[1], "250") // two batches and a half
				client.Dir = filepath.Join("..", "..", "examples", name)
				client.Env = append(os.Environ(), "NODELEASE_SIDECAR="+said.Listen, "PYTHONDONTWRITEBYTECODE=1")
				out, err := client.CombinedOutput()
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				if err != nil || len(lines) != 251 || !regexp.MustCompile(`^node [0-3] version 1$`).MatchString(lines[0]) {
					t.Fatalf("got %v, want 251 lines\n%s", err, out)
				}
				for i, id := range lines[1:] {
					if !regexp.MustCompile(`^\d{18}$`).MatchString(id) || i > 0 && id <= lines[i] {
						t.Fatalf("line %d: got %s after %s, want a larger ID", i, id, lines[i])
					}
				}
				p.Process.Signal(syscall.SIGTERM)
				if _, code := p.end(t); code != 0 {
					t.Errorf("exit code %d, want 0: %s", code, p.stderr)
				}
			}
		})
	}
}

// If nothing listens, the clients name the missing sidecar, without a stack trace.
func TestServeClientsAlone(t *testing.T) {
	t.Parallel()
	for name, program := range map[string][]string{"python": {"python3", "example.py", "3"}, "node": {"node", "example.mjs", "3"}} {
		if _, err := exec.LookPath(program[0]); err != nil {
			t.Logf("NOT TESTED: the client in examples/%s: %v", name, err)
			continue
		}
		client := exec.Command(program[0], program[1:]...)
		client.Dir = filepath.Join("..", "..", "examples", name)
		client.Env = append(os.Environ(), "NODELEASE_SIDECAR=unix:"+filepath.Join(t.TempDir(), "none"), "PYTHONDONTWRITEBYTECODE=1")
		out, err := client.CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "is nodelease serve running there?") {
			t.Errorf("%s: got %v, want one line with the remedy\n%s", name, err, out)
		}
	}
}

// If an answer breaks off, the clients report that, without a stack trace.
func TestServeClientsCutOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"ids":[`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	for name, program := range map[string][]string{"python": {"python3", "example.py", "3"}, "node": {"node", "example.mjs", "3"}} {
		if _, err := exec.LookPath(program[0]); err != nil {
			t.Logf("NOT TESTED: the client in examples/%s: %v", name, err)
			continue
		}
		client := exec.Command(program[0], program[1:]...)
		client.Dir = filepath.Join("..", "..", "examples", name)
		client.Env = append(os.Environ(), "NODELEASE_SIDECAR="+server.URL, "PYTHONDONTWRITEBYTECODE=1")
		out, err := client.CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "is nodelease serve running there?") {
			t.Errorf("%s: got %v, want one line with the remedy\n%s", name, err, out)
		}
	}
}

// When the sidecar closes a connection on its Unix socket, the client in Python connects to this socket again, not to port 80 of this
// machine. It waits 10 s for an answer, as over TCP.
func TestServeClientUnix(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: the client in examples/python:", err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, `{"node_id":7}`)
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	defer server.Close()
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	_, port, _ := strings.Cut(stranger.Listener.Addr().String(), ":")
	client := exec.Command("python3", "-c", `
import http.client, nodelease, sys
http.client.HTTPConnection.default_port = int(sys.argv[1])
sidecar = nodelease.Sidecar()
print(sidecar.node()["node_id"], sidecar.node()["node_id"], nodelease._connect(sidecar.address).sock.gettimeout())`, port)
	client.Dir = filepath.Join("..", "..", "examples", "python")
	client.Env = append(os.Environ(), "NODELEASE_SIDECAR=unix:"+socket, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := client.CombinedOutput(); err != nil || string(out) != "7 7 10.0\n" {
		t.Errorf("got %v, want the node ID twice, and 10 s\n%s", err, out)
	}
}

// After a fork, parent and child have different IDs: the batch that the client in Python had fetched belongs to the parent (S1).
func TestServeClientFork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: the client in examples/python:", err)
	}
	var last atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"ids":["%d","%d","%d"]}`, last.Add(1), last.Add(1), last.Add(1))
	}))
	defer server.Close()
	client := exec.Command("python3", "-c", `
import nodelease, os
sidecar = nodelease.Sidecar(batch=3)
print(sidecar.next_id(), flush=True)
if child := os.fork():
    os.waitpid(child, 0)
print(sidecar.next_id(), flush=True)`)
	client.Dir = filepath.Join("..", "..", "examples", "python")
	client.Env = append(os.Environ(), "NODELEASE_SIDECAR="+server.URL, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := client.CombinedOutput(); err != nil || string(out) != "1\n4\n2\n" {
		t.Errorf("got %v, want ID 1, ID 4 of the child, and ID 2 of the parent\n%s", err, out)
	}
}

// An error names a port or a path that cannot be used, with the flag and the remedy.
func TestListenRefused(t *testing.T) {
	flags := database(t, "leases")
	taken, _ := url.Parse(flags[slices.Index(flags, "--endpoint")+1])
	none := filepath.Join(t.TempDir(), "none", "file")
	if code, _, stderr := call(append(flags, "seed", "--pool", "orders", "--size", "1")...); code != 0 {
		t.Fatal(stderr)
	}
	for args, want := range map[string]string{
		"serve --pool orders --listen " + taken.Host:   "address already in use: choose another port",
		"serve --pool orders --listen unix:" + none:    "in a directory that this user can write to",
		"ui --pool orders --listen " + taken.Host:      "address already in use: choose another port",
		"dynamodb --listen 127.0.0.1:0 --data " + none: "in a directory that this user can write to",
	} {
		if code, stdout, stderr := call(append(flags, strings.Fields(args)...)...); code != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %s", args, code, stdout, stderr)
		}
	}
}

// The clients in examples are so short that each fits on a page.
func TestServeClientsAreShort(t *testing.T) {
	for _, name := range []string{"python/nodelease.py", "node/nodelease.mjs"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 45 {
			t.Errorf("%s: got %d lines, want at most 45", name, n)
		}
	}
}

// When its lease is lost, serve ends with the exit code for that, so that it can be started
// again.
func TestServeLost(t *testing.T) {
	t.Parallel()
	p, said, flags := serveOn(t, "--listen", "127.0.0.1:0", "--ttl", "1s", "--guard", "200ms", "--claim-guard", "100ms")
	code, _, stderr := call(append([]string{"release", "--yes", "--version", "1"}, append(flags, strconv.Itoa(said.NodeID))...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	if _, code := p.end(t); code != 7 || !strings.Contains(p.stderr.String(), "lost") {
		t.Errorf("exit code %d, want 7 and the loss: %s", code, p.stderr)
	}
}

// serve takes over the socket of a dead process, but not a socket that is in use.
func TestServeSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	p, _, _ := serveOn(t, "--listen", "unix:"+path, "--socket-mode", "0600")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"serve", "--listen", "unix:" + path}, flags...)...); code == 0 || !strings.Contains(stderr, "another process listens there") {
		t.Error(code, stderr)
	}
	p.Process.Kill()
	p.end(t)
	p, _, _ = serveOn(t, "--listen", "unix:"+path)
	p.Process.Signal(syscall.SIGTERM)
	if _, code := p.end(t); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.stderr)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket still exists: %v", err)
	}
}
