package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/internal/text/texttest"
)

// reads are the commands that only read, with their arguments and what the user types.
var reads = []struct{ args, typed string }{
	{"list", ""}, {"list -o wide", ""}, {"list -o csv", ""}, {"list -o name", ""}, {"list --json", ""}, {"list --metadata key", ""},
	{"services", ""}, {"resolve api", ""}, {"resolve api --json", ""}, {"resolve shard --keys", ""}, {"__complete resolve ", ""},
	{"inspect 4", ""}, {"inspect 1", ""}, {"inspect 2", ""}, {"inspect 3", ""}, {"inspect 1 --json", ""}, {"stats", ""}, {"stats --json", ""},
	{"watch --for 1ms --plain", ""}, {"watch --for 1ms --json", ""},
	{"release 1 --version 3", "n\n"}, {"release 1 --version 3 --dry-run", ""}, {"release 1 --version 2 --yes", ""},
	{"resize --size 2", "n\n"}, {"resize --size 2 --dry-run", ""}, {"raise", "n\n"}, {"raise --dry-run", ""},
	{"reap", "n\n"}, {"reap --dry-run", ""}, {"doctor", ""}, {"doctor --json", ""}, {"pools", ""}, {"pools --json", ""}, {"seed --size 8", ""},
	{"id 4198400", ""}, {"id 4198400 --json", ""}, {"__complete inspect ", ""}, {"__complete list --pool ", ""},
}

// Whatever text a holder writes, each command shows the same facts on the same lines as for
// a plain name. It prints no control character, either in a pipe or on a terminal.
func TestHostileHolders(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many commands on many texts")
	}
	client := dynamotest.Embedded(t)
	now := time.Now()
	write := func(value string) (flags []string) {
		w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
		w.seed("orders", 8)
		says := map[string]string{"key": value, metadataName(value): "v"}
		w.put(number(1, now.Add(100*time.Hour), map[string]any{"task": value, "holder": cutTo(value, 64), "metadata": says}))
		w.put(number(2, now.Add(-100*time.Hour), map[string]any{"task": value}))
		w.put(map[string]any{"pool_group": "orders#0", "node_id": 3, "version": value}) // corrupt
		// No process has a pool of this name, whatever the value is, so doctor compares orders with nothing.
		w.put(map[string]any{"pool_group": cutTo(value, 100) + "*", "node_id": -1, "item_format": 1, "pool_size": 4})
		w.put(map[string]any{"pool_group": "orders#0", "node_id": 4, "version": 3, "reserved_until": 1, "task": value, "previous": map[string]any{"session": cutTo(value, 64), "version": 3, "ended": "released"}})
		w.put(map[string]any{"pool_group": "orders#svc#api", "node_id": 1, "version": 3, "revision": 1, "holder": cutTo(value, 64), "addresses": map[string]any{"host": "10.0.0.1", "zone": value, "labels": says}})
		w.put(map[string]any{"pool_group": "orders#registered", "node_id": 1, "version": 3, "revision": 1, "holder": cutTo(value, 64), "places": []string{"svc#api", value, "ep#shard#" + cutTo(value, 50)}})
		w.put(map[string]any{"pool_group": "#pools", "node_id": 7, "pool_name": value})
		return []string{"--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders"}
	}
	flags := write("plain")
	want := map[string]string{}
	for _, r := range reads {
		want[r.args] = facts(shown(r.args, r.typed, flags), "plain")
	}
	for name, value := range quarter(texttest.Hostile) {
		value = strings.ToValidUTF8(value, "\ufffd") // nothing else can be sent
		value = cutTo(value, 300)                    // a longer value makes the item corrupt: see TestEveryAttribute
		flags := write(value)
		for _, r := range reads {
			output := shown(r.args, r.typed, flags)
			if err := texttest.Check(output, false, 0); err != nil {
				t.Errorf("%s, %s: %v", name, r.args, err)
			}
			if len(output) > 64<<10 && !strings.Contains(r.args, "json") {
				t.Errorf("%s, %s: got %d bytes, want at most 64 KB", name, r.args, len(output))
			}
			if strings.Contains(r.args, "resolve") || r.args == "services" {
				continue // hostile items are skipped there, with a message
			}
			if strings.Contains(r.args, "json") || r.args == "pools" || strings.Contains(value, `"`) && strings.Contains(r.args, "csv") {
				continue // the exact values, times or quotes in this output differ, so only its characters are checked
			}
			if got := facts(output, value); got != want[r.args] {
				t.Errorf("%s, %s: got\n%s\nwant\n%s\nfrom %.3000s", name, r.args, got, want[r.args], output)
			}
		}
		for _, width := range []int{40} {
			for _, line := range []string{"list -o wide", "inspect 1", "inspect 3", "doctor", "release 1 --version 3", "services", "resolve api", "resolve shard --keys"} {
				output := onTerminal(t, width, append(words(line), flags...)...)
				if err := texttest.Check(output, true, 0); err != nil {
					t.Errorf("%s, %s at %d: %v", name, line, width, err)
				}
			}
		}
	}
}

// cutTo cuts a text to at most most bytes, without splitting a character.
func cutTo(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// metadataName returns a name for metadata that contains value and sorts after "key".
func metadataName(value string) string {
	if len(value) < 150 {
		return "z" + value
	}
	return "zzz-long"
}

// shown returns everything that a command prints to stdout and stderr.
func shown(line, typed string, flags []string) string {
	args := words(line)
	if args[0] == "__complete" { // the word that is completed comes last
		args = append(append([]string{args[0], args[1]}, flags...), args[2:]...)
	} else {
		args = append(args, flags...)
	}
	_, stdout, stderr := answering(typed, args...)
	for i, flag := range flags {
		if flag == "--table" {
			stdout, stderr = strings.ReplaceAll(stdout, flags[i+1], "TABLE"), strings.ReplaceAll(stderr, flags[i+1], "TABLE")
		}
	}
	return stdout + "-- stderr --\n" + stderr
}

var aNumber = regexp.MustCompile(`\d+`)

// facts returns the lines of an output without the hostile value, the parts that change
// with time, and the widths of columns.
func facts(output, value string) string {
	for _, as := range []string{text.Line(cutTo(value, 100) + "*"), text.Line(metadataName(value)), text.Quote(value).String(), text.Cell(value), text.Line(value), text.Line(cutTo(value, 64)), text.Line(text.Session(cutTo(value, 64)))} {
		output = strings.ReplaceAll(output, as, "VALUE")
	}
	var b strings.Builder
	for line := range strings.Lines(output) {
		switch before, _, found := strings.Cut(line, "VALUE"); {
		case found: // in a table, times follow the value
			line = before + "VALUE"
		case strings.Contains(line, `\`), strings.Contains(line, "…"), strings.Contains(line, "corrupt"):
			line, _, _ = strings.Cut(line, ":")
		}
		fields := strings.Fields(aNumber.ReplaceAllString(line, "N"))
		if len(fields) > 4 {
			fields = fields[:4]
		}
		b.WriteString(strings.Join(fields, " ") + "\n")
	}
	return b.String()
}

// onTerminal returns what a command draws on a terminal with the given number of columns.
func onTerminal(t *testing.T, columns int, args ...string) string {
	t.Helper()
	near, far := terminal(t)
	if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: 50}); err != nil {
		t.Fatal(err)
	}
	drawn := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, near) // until the far end is closed, which is an error here
		drawn <- b.String()
	}()
	run(args, strings.NewReader("n\n"), far, far)
	far.Close()
	return strings.ReplaceAll(<-drawn, "\r\n", "\n")
}

// Texts from the endpoint pass the gate too, in every command that sends requests to it.
func TestHostileEndpoint(t *testing.T) {
	for name, value := range quarter(texttest.Hostile) {
		if !utf8.ValidString(value) || len(value) > 10_000 {
			continue
		}
		for _, code := range []string{"AccessDeniedException", "ValidationException", "Whatever" + value} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				body, _ := text.MarshalJSON(map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": value})
				w.WriteHeader(400)
				_, _ = w.Write(body)
			}))
			lines := []string{"list", "inspect 1", "doctor", "doctor --json", "release 1 --version 1", "id 4198400"}
			if !strings.HasPrefix(code, "Whatever") { // the commands below retry after an unknown code
				lines = append(lines, "stats", "pools", "reap", "seed", "resize --size 4", "raise", "watch", "ui", "serve --listen 127.0.0.1:0", "init")
			}
			for _, line := range lines {
				output := shown(line, "", []string{"--endpoint", server.URL, "--table", "leases", "--pool", "orders"})
				if err := texttest.Check(output, false, 0); err != nil {
					t.Errorf("%s, %s: %v", name, line, err)
				}
				if strings.Contains(line, "json") || line == "doctor" || line == "id 4198400" {
					continue
				}
				if n := strings.Count(output, "\n"); n != 2 && !strings.HasPrefix(line, "serve") { // serve also writes log lines
					t.Errorf("%s, %s: %d lines, want the error on one: %q", name, line, n-1, output)
				}
			}
			server.Close()
		}
	}
}

// Texts from the environment and the command line pass the gate too.
func TestHostileEnvironment(t *testing.T) {
	for name, value := range texttest.Hostile {
		if strings.Contains(value, "\x00") || len(value) > 10_000 {
			continue // no environment has these
		}
		t.Setenv("NODELEASE_TABLE", value)
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1/"+value)
		for _, args := range [][]string{{"list", "--pool", "orders"}, {"list", "--pool", value}, {value}, {"--" + value}, {"inspect", value}, {"list", "--state", value}, {"id", value}, {"help", value}} {
			code, stdout, stderr := call(args...)
			if err := texttest.Check(stdout+stderr, false, 0); err != nil || code == 0 && args[0] != value {
				t.Errorf("%s, %.60q: exit code %d, %v", name, args, code, err)
			}
		}
	}
}

// No output contains the password of an endpoint.
func TestPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 4)
	w.put(number(1, time.Now().Add(-time.Hour), nil))
	host := strings.TrimPrefix(*client.Options().BaseEndpoint, "http://")
	for _, endpoint := range []string{"http://admin:hunter2@" + host, "http://admin:hunter2@127.0.0.1:1", "http://admin:hunter2@", "https://admin:hunter2@" + host} {
		for _, line := range []string{"list", "inspect 1", "stats", "doctor", "list --pool other", "release 1 --version 3 --dry-run", "list --timeout 1ns", "init", "init --print aws"} {
			t.Run(line+" at "+endpoint, func(t *testing.T) {
				t.Parallel() // where nothing listens, a command retries for a while
				output := shown(line, "", append([]string{"--endpoint", endpoint, "--table", w.table}, pool(line)...))
				if strings.Contains(output, "hunter2") || strings.Contains(output, "admin") {
					t.Errorf("%s at %s shows a password: %s", line, endpoint, output)
				}
			})
		}
		t.Run("from the environment, "+endpoint, func(t *testing.T) {
			t.Parallel()
			cmd := self("list", "--table", w.table, "--pool", "orders")
			cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL_DYNAMODB="+endpoint)
			p := start(t, cmd)
			out, code := p.end(t)
			if output := out + p.stderr.String(); strings.Contains(output, "hunter2") || code != 0 && output == "" {
				t.Errorf("exit code %d, want an error without the password: %s", code, output)
			}
		})
	}
}

// pool returns the flag for the pool, unless the line already contains that flag.
func pool(line string) []string {
	if strings.Contains(line, "--pool") {
		return nil
	}
	return []string{"--pool", "orders"}
}
