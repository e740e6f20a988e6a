package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// notRun lists why blocks are not run. Only what needs Docker is not run.
var notRun = []string{"it builds an image, which needs Docker"}

var fence = regexp.MustCompile("(?ms)^```(\\w*)([^\n]*)\n(.*?)^```$")

// Every shell block of docs/deploy.md is run as printed, one after the other in one
// shell, as a reader would. The variables that point to the emulator come from the
// environment that localstack/run.sh sets.
func TestDeployPage(t *testing.T) {
	emulator(t, "page")
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks, skipped := []string{}, []string{}
	for _, b := range fence.FindAllStringSubmatch(string(page), -1) {
		switch why, marked := strings.CutPrefix(strings.TrimSpace(b[2]), "not run: "); {
		case b[1] != "sh":
			t.Errorf("a block of the page is marked %q, want sh:\n%s", b[1], b[3])
		case marked:
			skipped = append(skipped, why)
		default:
			blocks = append(blocks, fmt.Sprintf("echo '== block %d' >&2\n%s", len(blocks)+1, b[3]))
		}
	}
	if regexp.MustCompile(`(?m)^    \S`).Match(page) {
		t.Error("the page has an indented block, which this test does not see: fence it with sh")
	}
	if strings.Join(skipped, "\n") != strings.Join(notRun, "\n") {
		t.Errorf("the blocks that are not run: %q, want %q", skipped, notRun)
	}

	// The last block deletes everything. On LocalStack, that includes the tables, because
	// LocalStack ignores DeletionPolicy. So the template's resources are checked before the
	// last block.
	last := len(blocks) - 1
	script := strings.Join(blocks[:last], "") + `
echo "TEMPLATE_SIZE=$(aws dynamodb get-item --table-name "$TEMPLATE_TABLE" --key '{"pool_group":{"S":"invoices"},"node_id":{"N":"-1"}}' --query Item.pool_size.N --output text)"
` + blocks[last]
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = "../.."
	var log strings.Builder
	command.Stderr = &log
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, log.String())
	}
	t.Logf("%d blocks ran, %d did not", len(blocks), len(skipped))

	// The result for the reader: a process with a node ID, the outputs, the plain
	// template's pool after its update.
	for _, want := range []string{`NODELEASE_NODE_ID=\d+`, `NODELEASE_POOL=orders`, `NodesTableName`, `TEMPLATE_SIZE=300\b`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the page's commands never print %s:\n%s", want, out)
		}
	}
}

// Every shell block of the page about LocalStack is run by test.sh, which finds them by their headings.
func TestLocalStackPage(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../test.sh")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^    \S`).Match(page) {
		t.Error("the page has an indented block, which this test does not see: fence it with sh")
	}
	found := 0
	for _, section := range strings.Split(string(page), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, b := range fence.FindAllStringSubmatch(section, -1) {
			found++
			if b[1] != "sh" || strings.TrimSpace(b[2]) != "" {
				t.Errorf("a block under %q begins with ```%s%s, want ```sh", heading, b[1], b[2])
			}
			if !strings.Contains(string(script), "block '"+heading+"'") {
				t.Errorf("localstack/test.sh does not run the block under %q", heading)
			}
		}
	}
	if found != 3 {
		t.Errorf("found %d blocks, want 3", found)
	}
}
