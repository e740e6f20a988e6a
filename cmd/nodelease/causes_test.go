package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// onPool are the commands that read a pool, each with the arguments that it needs.
var onPool = []string{
	"list", "list --watch", "inspect 1", "stats", "watch --for 1s", "release 1 --version 1 --yes", "release --task t --yes", "resize --size 4 --yes", "raise --yes", "reap --yes",
	"serve --listen 127.0.0.1:0", "exec -- true", "ui",
}

// Each cause of a failure has the same exit code in each command that can meet it, and one
// line that names the endpoint, the pool or the table, and a remedy.
func TestCauses(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("full", 1)
	full := number(0, time.Now().Add(14*time.Second), nil)
	full["pool_group"] = "full#0"
	w.put(full)
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"User: me is not authorized"}`))
	}))
	defer denies.Close()
	here := *client.Options().BaseEndpoint
	for _, test := range []struct {
		cause    string
		endpoint string
		pool     string
		commands []string
		code     int
		want     string
	}{
		{"not seeded", here, "missing", onPool, codeUnseeded, "nodelease seed --size 1024 --table " + w.table + " --pool missing --endpoint " + here},
		{"denied", denies.URL, "orders", append([]string{"seed", "pools", "init"}, onPool...), codeAccess, "no access: "},
		{"refused", "http://127.0.0.1:1", "orders", []string{"list", "inspect 1", "stats", "watch", "release 1 --version 1", "resize --size 4", "raise", "reap", "seed", "ui"}, codeNoAnswer, "127.0.0.1:1"},
		{"exhausted", here, "full", []string{"serve --listen 127.0.0.1:0", "exec -- true"}, codeExhausted, "--wait"},
		{"usage", here, "orders", append([]string{"seed", "pools", "init", "doctor", "version", "dynamodb", "demo", "id 1"}, onPool...), codeUsage, "unknown flag --frob"},
		{"doctor: unseeded", here, "missing", []string{"doctor"}, codeError, "1 problem found"},
	} {
		for _, command := range test.commands {
			flags := []string{"--endpoint", test.endpoint, "--table", w.table, "--pool", test.pool}
			if test.cause == "usage" {
				flags = append(flags, "--frob")
			}
			args := words(command)
			code, stdout, stderr := call(append(append(args[:1:1], flags...), args[1:]...)...)
			want := test.code
			if args[0] == "exec" {
				want += codeExec
			}
			last := strings.TrimSuffix(stderr[strings.LastIndex(strings.TrimSuffix(stderr, "\n"), "\n")+1:], "\n")
			if code != want || stdout != "" && args[0] != "doctor" || !strings.HasPrefix(last, "nodelease: ") || !strings.Contains(last, test.want) {
				t.Errorf("%s, %s: exit code %d, want %d; stdout %q; stderr %q, want %q", test.cause, command, code, want, stdout, stderr, test.want)
			}
			for _, name := range []string{"Config.", "WithLayout", "OnExpiry", "GrantLease", "SetMetadata", "%!"} {
				if strings.Contains(stderr, name) {
					t.Errorf("%s, %s: %s means nothing at a shell: %s", test.cause, command, name, stderr)
				}
			}
		}
	}
}

// No command waits for longer than --timeout, neither for an endpoint that accepts
// connections and never answers, nor for one that sends half of an answer.
func TestNoCommandWaitsForever(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"Table":{`))
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(half.Close)
	const limit = "300ms"
	for _, command := range append([]string{"seed", "pools", "init", "doctor"}, onPool...) {
		for name, endpoint := range map[string]string{"silent": "http://" + silent.Addr().String(), "half": half.URL} {
			t.Run(command+", "+name, func(t *testing.T) {
				args := words(command)
				if args[0] != "serve" { // serve sets the logger of the whole process
					t.Parallel()
				}
				flags := []string{"--endpoint", endpoint, "--table", "leases", "--pool", "orders", "--timeout", limit}
				began := time.Now()
				code, stdout, stderr := call(append(append(args[:1:1], flags...), args[1:]...)...)
				want := codeNoAnswer
				if args[0] == "exec" {
					want += codeExec
				}
				if args[0] == "doctor" && strings.Contains(stdout, "✗") && code == codeError {
					return // doctor has reported its findings
				}
				if code != want || !strings.Contains(stderr, "127.0.0.1") && !strings.Contains(stderr, "cut in the middle") || !strings.Contains(stderr, "check ") || strings.Contains(stderr, "is not DynamoDB") || strings.Contains(stderr, "operation error") {
					t.Errorf("%s at %s: exit code %d, want %d, after %v: %s", command, endpoint, code, want, time.Since(began), stderr)
				}
			})
		}
	}
}

// A silence that is longer than the limit ends a command, and the error names its length.
func TestSilence(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	endpoint := "http://" + silent.Addr().String()
	g := &globals{answers: answers{limit: 50 * time.Millisecond}}
	root := newRootWith(g)
	root.SetArgs([]string{"list", "--endpoint", endpoint, "--table", "leases", "--pool", "orders"})
	err = g.answers.explain(root.ExecuteContext(t.Context()))
	if got := g.exitCode(err); got != codeNoAnswer || !strings.Contains(err.Error(), "no answer from "+endpoint+" for 50ms") {
		t.Errorf("exit code %d, want %d: %v", got, codeNoAnswer, err)
	}
}

// An alarm that rings just when an answer arrives does not end the command, also if the next
// request has been sent before the alarm takes effect.
func TestAlarmThatRingsWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answers{}
		ctx := a.begin(t.Context(), 0)
		a.sent()
		time.Sleep(longestSilence - time.Millisecond) // virtual
		a.ended(nil)
		a.sent()
		a.giveUp(0)
		if err := context.Cause(ctx); err != nil {
			t.Errorf("got %v a moment after an answer", err)
		}
		a.ended(nil)
	})
}

// A completion of a service's name ends soon, also if nothing answers.
func TestCompletionOfAServiceEnds(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), longestSilence)
	defer cancel()
	g := &globals{table: "leases", pool: "orders", endpoint: "http://" + silent.Addr().String()}
	if names := g.serviceNames(ctx, nil); len(names) > 0 || ctx.Err() != nil {
		t.Errorf("got %q, %v; want no names, before the command itself gives up", names, ctx.Err())
	}
}

// Every flag of every command is in the documentation.
func TestFlagsAreDocumented(t *testing.T) {
	var pages strings.Builder
	for _, name := range []string{"cli", "exec", "sidecar", "ui"} {
		page, err := os.ReadFile("../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(page)
	}
	for _, cmd := range append(newRoot().Commands(), newRoot()) {
		if cmd.Hidden || cmd.Name() == "completion" {
			continue
		}
		check := func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(pages.String(), "--"+f.Name) {
				t.Errorf("--%s of %s is missing from docs/cli.md, exec.md, sidecar.md and ui.md", f.Name, cmd.Name())
			}
		}
		cmd.Flags().VisitAll(check)
		cmd.PersistentFlags().VisitAll(check)
	}
}

// words returns the arguments in a line; the last one may be empty.
func words(line string) []string { return strings.Split(line, " ") }
