package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
)

// Only what needs Docker is not run.
var notRun = []string{"it builds an image, which needs Docker"}

var fence = regexp.MustCompile("(?ms)^```(\\w*)([^\n]*)\n(.*?)^```$")

// Every shell block of docs/deploy.md is run as it is printed, one after the other in one shell, as a reader would. What leads to the emulator
// comes from the environment that localstack/run.sh makes.
func TestDeployPage(t *testing.T) {
	port := os.Getenv("NODELEASE_LOCALSTACK_PORT")
	if port == "" {
		t.Skip("NOT TESTED on LocalStack: NODELEASE_LOCALSTACK_PORT is not set. To run this test: localstack/test.sh page")
	}
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	script, ran, skipped := "", 0, []string{}
	for _, b := range fence.FindAllStringSubmatch(string(page), -1) {
		switch why, marked := strings.CutPrefix(strings.TrimSpace(b[2]), "not run: "); {
		case b[1] != "sh":
			t.Errorf("a block of the page is marked %q, want sh:\n%s", b[1], b[3])
		case marked:
			skipped = append(skipped, why)
		default:
			ran++
			script += fmt.Sprintf("echo '== block %d' >&2\n%s", ran, b[3])
		}
	}
	if regexp.MustCompile("(?m)^    \\S").Match(page) {
		t.Error("the page has an indented block, which this test does not see: fence it with sh")
	}
	if strings.Join(skipped, "\n") != strings.Join(notRun, "\n") {
		t.Errorf("the blocks that are not run: %q, want %q", skipped, notRun)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 18*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script+`
echo "TEMPLATE_TABLE=$TEMPLATE_TABLE"`)
	command.Dir = "../.."
	var log strings.Builder
	command.Stderr = &log
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, log.String())
	}
	t.Logf("%d blocks ran, %d did not", ran, len(skipped))

	// What the reader has then.
	for _, want := range []string{`NODELEASE_NODE_ID=\d+`, `NODELEASE_POOL=orders`, `NodesTableName`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the page's commands never print %s:\n%s", want, out)
		}
	}
	table := regexp.MustCompile(`TEMPLATE_TABLE=(\S+)`).FindSubmatch(out)
	if table == nil {
		t.Fatalf("no table of the template:\n%s", out)
	}
	endpoint := "http://127.0.0.1:" + port
	store := lease.NewDynamoDB(dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), string(table[1]))
	if item, err := store.PoolItem(t.Context(), "invoices"); err != nil || item.Size != 300 {
		t.Errorf("the pool of the plain template is %+v, %v", item, err)
	}
}
