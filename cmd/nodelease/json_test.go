package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

var update = flag.Bool("update", false, "rewrite testdata/json")

// The output of --json is a contract. testdata/json contains it, with times and the
// differences between builds masked, and docs/cli.md explains every key.
func TestJSONContract(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 4)
	now := time.Now()
	w.put(number(1, now.Add(10*time.Minute), map[string]any{"metadata": map[string]string{"zone": "eu-west-1a"}}))
	w.put(number(2, now.Add(-time.Hour), nil))
	w.put(map[string]any{"pool_group": "orders#0", "node_id": 3, "version": "three"})
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, args string
		code       int
	}{
		{"list", "list", 0},
		{"inspect", "inspect 1", 0},
		{"stats", "stats", 0},
		{"watch", "watch --for 150ms --every 100ms", 0},
		{"reap-dry-run", "reap --dry-run", 0},
		{"doctor", "doctor", 1},
		{"release", "release 1 --version 3 --yes", 0},
		{"reap", "reap --no-wait --yes", 0},
		{"seed", "seed --pool users --size 3", 0},
		{"resize", "resize --pool users --size 2 --yes", 0},
		{"raise", "raise --pool users --to +1m --yes", 0},
		{"id", "id 4198400", 0},
		{"id-range", "id --first 2026-11-21 --last 2026-11-21", 0},
		{"pools", "pools", 0},
		{"init", "init", 0},
		{"version", "version", 0},
	} {
		flags := []string{"--json", "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders"}
		words := strings.Fields(test.args)
		code, stdout, stderr := call(append(flags, words...)...)
		line, _, _ := strings.Cut(stdout, "\n") // watch prints one line for each change
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil || code != test.code {
			t.Errorf("%s: exit code %d, %q, %v, want one line of JSON; stderr %s", test.name, code, stdout, err, stderr)
			continue
		}
		section := sectionOf(string(page), words[0])
		for key := range keysIn(v) {
			if !strings.Contains(section, "`"+key+"`") {
				t.Errorf("docs/cli.md does not explain the key %s of %s", key, test.name)
			}
		}
		got, err := json.MarshalIndent(masked("", v), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "json", test.name+".json"), append(got, '\n'), w.table)
	}
}

// A command that runs until it is stopped prints its object when it is ready. The demo
// prints its object when it has ended.
func TestJSONContractOfWhatRunsOn(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for command, object := range map[string]any{"serve": serving{}, "ui": served{}, "demo": demo.Summary{}} {
		got, err := json.MarshalIndent(object, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Fatal(err)
		}
		for key := range keysIn(v) {
			if !strings.Contains(sectionOf(string(page), command), "`"+key+"`") {
				t.Errorf("docs/cli.md does not explain the key %s of %s", key, command)
			}
		}
		golden(t, filepath.Join("testdata", "json", command+".json"), append(got, '\n'), "TABLE")
	}
}

func golden(t *testing.T, file string, got []byte, table string) {
	t.Helper()
	got = bytes.ReplaceAll(got, []byte(table), []byte("TABLE"))
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs, %v: if that is intended, run this test with -update and change docs/cli.md; got\n%s", file, err, got)
	}
}

var (
	aTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	aURL  = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
)

// masked returns a value without the parts that differ from run to run.
func masked(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			v[k] = masked(k, inner)
		}
		if _, build := v["go"]; build {
			delete(v, "revision") // not every build has a revision
			delete(v, "date")
		}
		return v
	case []any:
		for i, inner := range v {
			v[i] = masked(key, inner)
		}
		return v
	case string:
		if slices.Contains([]string{"version", "go", "platform"}, key) {
			return "MASKED"
		}
		return aURL.ReplaceAllString(aTime.ReplaceAllString(v, "TIME"), "URL")
	}
	return v
}

// keysIn returns all keys of a value, at any depth, except keys that are numbers or free
// text.
func keysIn(v any) map[string]bool {
	keys := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			keys[k] = true
			if k != "metadata" && k != "corrupt" {
				maps.Copy(keys, keysIn(inner))
			}
		}
	case []any:
		for _, inner := range v {
			maps.Copy(keys, keysIn(inner))
		}
	}
	return keys
}

// sectionOf returns the page's text about a command, including sections about several
// commands.
func sectionOf(page, command string) (text string) {
	for _, section := range strings.Split(page, "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		if strings.Contains(title, "`"+command+"`") || strings.HasPrefix(title, "Objects") {
			text += section
		}
	}
	return text
}

// Every command and flag has a description; every command has an example.
func TestEveryCommandHasExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot().Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Short == "" || cmd.Long == "" && cmd.Name() != "version" || !strings.Contains(cmd.Example, "nodelease "+cmd.Name()) {
			t.Errorf("%s has no description or no example", cmd.Name())
		}
		if !strings.Contains(string(page), "`"+cmd.Name()) {
			t.Errorf("docs/cli.md does not have %s", cmd.Name())
		}
		code, stdout, _ := call(cmd.Name(), "--help")
		if code != 0 || !strings.Contains(stdout, "Examples:") {
			t.Errorf("%s --help: exit code %d, want 0 and examples\n%s", cmd.Name(), code, stdout)
		}
	}
}
