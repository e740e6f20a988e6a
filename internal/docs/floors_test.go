package docs

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation again")

// A floor is a package, or all packages below a folder, with its purpose.
// Packages of one folder ("proof/...") may import each other.
type floor struct{ path, does string }

// The floors, lowest first: a package imports only packages of floors below its
// own. This holds for product code and for tests of the same package; external test
// packages may import any test kit. docs/architecture.md has this table.
var floors = []floor{
	{"pkg/snowflake", "IDs: layouts, encodings, the timeline with its fence, the generator, clocks; standard library only"},
	{"pkg/snowflake/snowflaketest", "generators that repeat the same IDs in every run"},
	{"internal/testkit/certificate", "certificates for tests of TLS"},
	{"internal/lastaddress", "connects to the addresses that answered last, while DNS does not answer"},
	{"internal/ecs", "what ECS reports about the task and its machine's clock"},
	{"internal/text", "the gate that foreign text passes before a human sees it"},
	{"internal/text/texttest", "hostile strings for tests of everything that prints"},
	{"internal/local", "which requests the servers on this machine accept"},
	{"internal/embeddeddb", "the subset of DynamoDB that the demo and the tests run on"},
	{"internal/testkit/dynamotest", "an embedded server or DynamoDB Local for a test"},
	{"internal/embeddeddb/conform", "the embedded server compared with DynamoDB Local"},
	{"internal/testkit/sources", "names the files that a test depends on and does not open itself"},
	{"internal/testkit/zero", "calls functions and methods with nil and zero values"},
	{"internal/testkit/postgrestest", "a real PostgreSQL for a test"},
	{"internal/testkit/iampolicy", "decides what a generated IAM policy allows"},
	{"internal/testkit/history", "judges a history of leases and IDs: S1, S2, S3"},
	{"internal/protocol", "the items, the conditional writes, the DynamoDB store"},
	{"internal/protocol/protocoltest", "the conformance suite that every store passes"},
	{"internal/entries", "the records of service discovery, and a store in memory for tests"},
	{"internal/tenure", "what a holder may believe, which groups a claimant searches, the timings; the model and the fleets on paper"},
	{"internal/siblings", "functions that the packages below pkg offer to each other, but not to users"},
	{"pkg/lease/leasepool", "administers a pool: seed, resize, reap, widen, count"},
	{"pkg/lease", "the agent: claims a node ID, renews it, releases it"},
	{"pkg/lease/leasetest", "a store in memory and a settable clock, for users' tests"},
	{"pkg/lease/leasefixed", "node IDs without a lease"},
	{"pkg/lease/leaselambda", "leases and IDs inside AWS Lambda functions"},
	{"pkg/lease/leaseotel", "events and states as OpenTelemetry metrics"},
	{"internal/testkit/fixture", "what tests above pkg/lease share: virtual time, agents, a network, every store"},
	{"pkg/cluster", "members, changes, the leader; nodes and states"},
	{"pkg/cluster/clustertest", "the conformance suite of membership backends"},
	{"pkg/cluster/dynamocoordinator", "the membership backend on the table of the leases"},
	{"pkg/cluster/pgcoordinator", "a membership backend on PostgreSQL"},
	{"pkg/discovery", "service discovery: registration, lookups, watches, the sweep"},
	{"pkg/discovery/discoverytest", "a store of entries in memory, for users' tests"},
	{"internal/app/...", "the sidecar and the functions' handlers, which programs and proofs share"},
	{"clients/...", "clients in other languages, and the conformance suite that drives them"},
	{"functions/...", "the three Lambda functions"},
	{"infra/nodepool", "the CDK construct: table, functions, alarms, grants"},
	{"examples/...", "programs on the public packages"},
	{"infra/...", "the stacks of this repository"},
	{"cmd/nodelease/internal/...", "demo, supervision and web UI: only the command line uses them"},
	{"cmd/nodelease", "the command line"},
	{"proof/...", "the agent's tests by subject, the world, the mutants and everything else that make proof runs"},
	{"internal/docs", "tests that compare the documentation with the code"},
}

func (f floor) has(path string) bool {
	dir, all := strings.CutSuffix(f.path, "/...")
	return path == dir || all && strings.HasPrefix(path, dir+"/")
}

// floorOf returns the floor of a package, the most specific one, or -1.
func floorOf(path string) int {
	best := -1
	for i, f := range floors {
		if f.has(path) && (best < 0 || len(f.path) > len(floors[best].path)) {
			best = i
		}
	}
	return best
}

// Packages import only packages of lower floors.
func TestFloors(t *testing.T) {
	sources.Of(t, root)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath           string
			Imports, TestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(p.ImportPath, module)
		own := floorOf(path)
		if own < 0 {
			t.Errorf("%s has no floor: add it to the table in internal/docs/floors_test.go", path)
			continue
		}
		used[own] = true
		for _, imported := range slices.Concat(p.Imports, p.TestImports) {
			other, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			if strings.HasPrefix(other, "internal/testkit/") && slices.Contains(p.Imports, imported) && !isKit(path) {
				t.Errorf("%s imports the test kit %s", path, other)
			}
			if i := floorOf(other); i > own || i == own && !strings.HasSuffix(floors[own].path, "/...") {
				t.Errorf("%s imports %s, which is not on a floor below it", path, other)
			}
		}
	}
	for i, f := range floors {
		if !used[i] {
			t.Errorf("no package is on the floor %s", f.path)
		}
	}
}

// isKit reports whether a package exists for tests only.
func isKit(path string) bool {
	return strings.HasPrefix(path, "internal/testkit/") || strings.HasPrefix(path, "proof/") || strings.HasSuffix(path, "test") ||
		strings.HasSuffix(path, "/conform")
}

// The table of docs/architecture.md has the floors of this test, the highest floor
// first.
func TestFloorsPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| package | does |\n|---|---|\n")
	for _, f := range slices.Backward(floors) {
		fmt.Fprintf(&table, "| `%s` | %s |\n", f.path, f.does)
	}
	generated(t, "docs/architecture.md", "floors", table.String())
}

// generated compares the part of a page between "<!-- name: … -->" and
// "<!-- end of name -->" with text, and replaces it with -update.
func generated(t *testing.T, page, name, text string) {
	t.Helper()
	old := read(t, page)
	before, rest, ok := strings.Cut(old, "<!-- "+name+": go test ./internal/docs -update -->\n")
	_, after, end := strings.Cut(rest, "<!-- end of "+name+" -->")
	if !ok || !end {
		t.Fatalf("%s has no part %q", page, name)
	}
	want := before + "<!-- " + name + ": go test ./internal/docs -update -->\n" + text + "<!-- end of " + name + " -->" + after
	if want == old {
		return
	}
	if !*update {
		t.Fatalf("%s: the part %q is stale: run go test ./internal/docs -update", page, name)
	}
	if err := os.WriteFile(filepath.Join(root, page), []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
