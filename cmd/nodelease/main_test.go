package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/pkg/lease"
)

// asProgram is the environment variable that makes this test binary behave as the program.
// It is needed because the demo starts its own binary again, and because tests kill the
// program.
const asProgram = "NODELEASE_TEST_AS_PROGRAM"

// peakFile is the environment variable that names the file to which this binary, when it
// runs as the program, writes its peak memory. The peak that wait4 returns is of no use,
// because it includes the parent's memory.
const peakFile = "NODELEASE_TEST_PEAK"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		if file := os.Getenv(peakFile); file != "" {
			code := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
			status, _ := os.ReadFile("/proc/self/status") // if this fails, the test reports an empty file
			_ = os.WriteFile(file, status, 0o600)
			os.Exit(code)
		}
		main()
	}
	testscript.Main(tests{m}, map[string]func(){"nodelease": main}) // the sessions start the program under this name
}

// atOnce is how many parallel tests run at once. The tests wait for processes and for
// leases that expire, so atOnce is larger than the usual number of cores; -parallel sets a
// different number. Tests that keep a core busy are not parallel.
const atOnce = "8"

// tests run without the variables of the caller's environment that the program reads.
type tests struct{ *testing.M }

func (m tests) Run() int {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	for _, name := range []string{"NODELEASE_TABLE", "NODELEASE_POOL"} {
		os.Unsetenv(name)
	}
	return m.M.Run()
}

// call runs a command in this process.
func call(args ...string) (code int, stdout, stderr string) { return answering("", args...) }

// answering is call with input that the user types.
func answering(typed string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(typed), &out, &errs)
	return code, out.String(), errs.String()
}

// Each cause of a failure has one exit code, whatever other errors it is joined with.
func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("any"), 1},
		{usagef("wrong"), 2},
		{fmt.Errorf("wrapped: %w", usagef("wrong")), 2},
		{&lease.ExhaustedError{Pool: "p", Size: 3}, 3},
		{fmt.Errorf("%w: no such pool", lease.ErrPoolNotSeeded), 4},
		{fmt.Errorf("%w: denied", lease.ErrAccess), 5},
		{errors.Join(errors.New("any"), &silenceError{endpoint: "here"}), 6},
		{errors.Join(lease.ErrLost, errors.New("any")), 7},
		{&exitError{42, lease.ErrLost}, 42},
	} {
		if got := new(globals).exitCode(test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
}

// Wrong use is reported on one line, with the wrong value, the remedy and how to get help.
// The command does nothing else.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"frobnicate":                              `no command "frobnicate"`,
		"demo --frob":                             "unknown flag --frob",
		"list --stat held":                        "unknown flag --stat; did you mean --state?",
		"list --sate held":                        "unknown flag --sate; did you mean --state?",
		"list --tabel tab":                        "unknown flag --tabel; did you mean --table?",
		"list -x":                                 "unknown flag -x",
		"list --state":                            "--state needs a value",
		"--frob":                                  "unknown flag --frob; see nodelease --help",
		"list -o yaml":                            "--output yaml: use wide, json, csv or name",
		"list -o csv --json":                      "exclude each other",
		"list --metadata =x":                      "--metadata =x: use name=value",
		"list --every 1ms":                        "--every 1ms: use 100ms or more",
		"list --timeout=-1s":                      "--timeout -1s: use 0",
		"pools -o wide":                           "use name",
		"pools":                                   "which table?",
		"init":                                    "which table?",
		"init --table tab --print helm":           "--print helm: use cdk, cloudformation or aws",
		"release --task x 3":                      "names the node ID: omit the argument",
		"release 3 --version -1":                  "--version -1: versions are not negative; use the one that this command shows: nodelease inspect 3",
		"release":                                 "which node ID?",
		"raise --to 2020-01-01":                   "is in the past",
		"raise --to 2090-01-01":                   "more than a year ahead",
		"seed --floor 2020-01-01":                 "is in the past",
		"seed --floor -1h":                        "is in the past",
		"seed --floor 2090-01-01":                 "more than a year ahead",
		"serve --metadata zone":                   "--metadata zone: use name=value",
		"serve --metadata a=1 --metadata a=2":     "the name a appears twice",
		"serve --guard 11s":                       "--guard 11s leaves no time to renew",
		"serve --ttl 15s1us":                      "use whole milliseconds",
		"serve --table t --pool p --name \x1b[2J": `--name \x1b[2J: use printable characters`,
		"list --table tab --pool p --endpoint http://u:secret@": "--endpoint http://xxxxx@: use a URL",
		"demo now":                               `"now": nodelease demo takes no arguments`,
		"demo --size 0":                          "--size 0: use 1 to 1024",
		"dynamodb --listen 192.0.2.1:80":         "--listen 192.0.2.1:80: use 127.0.0.1:8000",
		"dynamodb --listen 8000":                 "--listen 8000: use 127.0.0.1:8000",
		"demo --size 70000":                      "--size 70000: use 1 to 1024",
		"demo --ttl=-3s":                         "--ttl -3s: use 1s to 24h",
		"demo --ttl soon":                        "--ttl soon: use a duration such as 500ms",
		"demo --wait 1s --no-wait":               "exclude each other",
		"demo --port 70000":                      "--port 70000",
		"demo --endpoint http://127.0.0.1:8000":  "starts a DynamoDB of its own",
		"seed --table tab --pool p --size 0":     "--size 0: use 1 to 65536",
		"seed --table tab --pool p --size 70000": "--size 70000: use 1 to 65536",
		"list --pool p":                          "which table?",
		"list --table tab":                       "which pool?",
		"inspect --table tab --pool p":           "takes one argument, a node ID; got 0",
		"inspect x --table tab --pool p":         `"x" is not a node ID: use 0 to 65535`,
		"list --table tab --pool p --state no":   "--state no: use held, free",
		"list --table tab --pool p --sort no":    "--sort no: use expires, node",
		"resize --table tab --pool p":            "which size?",
		"release 3 --table tab --pool p":         "which version?",
		"raise --table tab --pool p --to noon":   "--to noon: use a time",
		"watch --table tab --pool p --every 1ms": "--every 1ms: use 100ms or more",
		"id":                                     "which ID?",
		"id 1 --layout mine":                     "--layout mine: use default, wide16",
		"id 12x":                                 "12x",
		"id 1 --to morse":                        "--to morse: use base32",
		"id 1 --first now":                       "take a time and no ID",
		"id --first 1999-12-31":                  "has IDs from 2025-01-01",
		"ui --table tab --pool p --every 1ms":    "--every 1ms: use 100ms or more",
		"ui --listen 0.0.0.0:80":                 "not on the loopback interface",
		"ui --table tab":                         "which pool?",
		"lst":                                    "did you mean list?",
		"reap --table tab --pool a#b":            `pool name "a#b"`,
		"version --json=maybe":                   "--json maybe: use true or false",
		"inspect -1":                             "-1 is not a flag; node IDs and IDs are never negative",
		"id -5":                                  "-5 is not a flag; node IDs and IDs are never negative",
		"seed --size x":                          "--size x: use a whole number",
		"release 3 --version x":                  "--version x: use a whole number",
		"id 0x":                                  `"0x" does not have 16 hexadecimal digits: use decimal digits`,
		"id 06XSTWT800W0!":                       "--from chooses the encoding",
		"completion bsh":                         `no shell "bsh": use bash, zsh, fish or powershell`,
		"help nosuch":                            `no command "nosuch"`,
		"help lst":                               "did you mean list?",
		"list --table tab --pool p --endpoint x": "--endpoint x: use a URL such as http://127.0.0.1:8000",
		"serve --ttl 2s":                         "--ttl 2s is below 5s: set --guard and --claim-guard too",
		"serve --ttl 1ms":                        "--ttl 1ms: use 5s to 24h",
		"serve --wait=-1s":                       "--wait -1s: use 0",
		"ui --listen 127.0.0.1:99999":            "invalid port",
	} {
		code, stdout, stderr := call(strings.Fields(args)...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "nodelease: ") || !strings.Contains(stderr, want) || !strings.HasSuffix(stderr, " --help\n") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %s, want 2 and %q on one line", args, code, stdout, stderr, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help"}} {
		code, stdout, _ := call(args...)
		if code != 0 || !strings.Contains(stdout, "demo") || strings.Contains(stdout, "demo-task") || !strings.Contains(stdout, "dynamodb  ") {
			t.Errorf("%v: exit code %d, want 0 and the commands\n%s", args, code, stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := call("version")
	if again, flag, _ := call("--version"); again != 0 || flag != stdout {
		t.Errorf("--version: exit code %d, got %q, want %q", again, flag, stdout)
	}
	if code != 0 || !strings.HasPrefix(stdout, "nodelease ") {
		t.Errorf("exit code %d, want 0 and the version: %s", code, stdout)
	}
	var v map[string]any
	code, stdout, _ = call("version", "--json")
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 || v["go"] == "" || v["platform"] == "" {
		t.Errorf("exit code %d, want 0 and the build: %s, %v", code, stdout, err)
	}
}

// database serves an embedded DynamoDB and returns the flags that lead to it.
func database(t *testing.T, table string) []string {
	t.Helper()
	s, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	endpoint, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.CreateTable(t.Context(), endpoint, table); err != nil {
		t.Fatal(err)
	}
	return []string{"--endpoint", endpoint, "--table", table, "--pool", "orders"}
}

// The first commands of a new user work in this order: seed, seed again, list, reap.
func TestSeedListReap(t *testing.T) {
	flags := database(t, "leases")
	for _, step := range []struct {
		args string
		code int
		want string // in stdout, or in stderr if the step fails
	}{
		{"list", 4, "pool orders of table leases is not seeded"},
		{"seed --size 300", 0, "pool orders has 300 node IDs, 300 of them new\n"},
		{"seed --size 300", 0, "pool orders has 300 node IDs, 0 of them new\n"},
		{"seed --size 500", 1, "exists with 300 node IDs"},
		{"list", 0, "300 node IDs: 0 held, 300 free, 0 expired, 0 cooling, 0 retired, 0 corrupt\n"},
		{"reap --dry-run", 0, "0 node IDs held, 0 due, 0 freed\n"},
		{"reap", 0, "0 node IDs held, 0 due, 0 freed\n"},
		{"list --table other", 1, `"other"`},
	} {
		// The flags of a step come last, so that they override the common flags.
		args := strings.Fields(step.args)
		code, stdout, stderr := call(append(append(args[:1:1], flags...), args[1:]...)...)
		text := stdout
		if step.code != 0 {
			text = stderr
		}
		if code != step.code || !strings.Contains(text, step.want) {
			t.Errorf("%s: exit code %d, stdout %s, stderr %s", step.args, code, stdout, stderr)
		}
	}
}

// For a node ID that does not exist, inspect names those that do: in a narrow pool, those
// that fit the present width.
func TestInspectNoNode(t *testing.T) {
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "1000", "--narrow"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	code, _, stderr := call(append([]string{"inspect", "700"}, flags...)...)
	if want := "pool orders has no node 700: its 512 node IDs are 0 to 511"; code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("got exit code %d, %q, want 1, %q", code, stderr, want)
	}
}

// The keys of --json are a contract.
func TestJSON(t *testing.T) {
	flags := database(t, "leases")
	for _, test := range []struct {
		args string
		want []string
	}{
		{"seed --size 2", []string{"finishing", "pool", "raised", "restored", "retired", "seeded"}},
		{"list", []string{"nodes", "pool"}},
		{"reap", []string{"braked", "cleared", "due", "freed", "held", "pool"}},
	} {
		code, stdout, stderr := call(append(append(strings.Fields(test.args), "--json"), flags...)...)
		if got := keys(t, stdout); code != 0 || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: exit code %d, keys %v, stderr %s", test.args, code, got, stderr)
		}
	}
	_, stdout, _ := call(append([]string{"list", "--json"}, flags...)...)
	var l struct {
		Nodes []struct {
			NodeID int    `json:"node_id"`
			State  string `json:"state"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal([]byte(stdout), &l); err != nil || len(l.Nodes) != 2 || l.Nodes[1].NodeID != 1 || l.Nodes[1].State != "free" {
		t.Errorf("got %s: %v, want two free nodes", stdout, err)
	}
}
