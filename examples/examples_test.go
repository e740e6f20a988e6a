// Package examples has no code of its own: its test runs the programs below it.
package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/sources"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func TestPrograms(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	store := lease.NewDynamoDB(client, table)
	for pool, size := range map[string]int{"orders": 4} {
		if _, err := leasepool.Open(store, pool).Seed(t.Context(), leasepool.Spec{Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	lastOf := func(l snowflake.Layout) string {
		id, err := l.Compose(time.Now().Add(-time.Minute), 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		return id.String()
	}
	sources.Of(t, ".", "../pkg", "../internal")
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./worker", "./migrate", "./importer")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		pool, input string
		args        []string
		want        string // a regular expression for all of stdout
	}{
		"worker":   {pool: "orders", input: "a\nb\n", want: `worker [0-3] did job "a" as \d+\nworker [0-3] did job "b" as \d+\n`},
		"importer": {pool: "orders", input: "a\nb\n", args: []string{"-key", "base58"}, want: `[0-9A-Za-z]{11}\ta\n[0-9A-Za-z]{11}\tb\n`},
		"migrate from a fixed worker ID": {pool: "fixed", args: []string{"-from", "bwmarrin", "-last", lastOf(snowflake.Twitter())},
			want: `the last ID is of node 3 at .*\nnode \d+ continues with \d+, which is greater\n`},
		"migrate from sonyflake": {pool: "sony", args: []string{"-from", "sonyflake", "-last", lastOf(snowflake.Sonyflake())},
			want: `the last ID is of node 3 at .*\nnode \d+ continues with \d+, which is greater\n`},
	} {
		t.Run(name, func(t *testing.T) {
			program, _, _ := strings.Cut(name, " ")
			command := exec.CommandContext(t.Context(), filepath.Join(bin, program), c.args...)
			command.Env = append(os.Environ(), "NODELEASE_TABLE="+table, "NODELEASE_POOL="+c.pool, "AWS_ENDPOINT_URL_DYNAMODB="+*client.Options().BaseEndpoint)
			command.Stdin = strings.NewReader(c.input)
			var logs bytes.Buffer
			command.Stderr = &logs
			out, err := command.Output()
			if err != nil || !regexp.MustCompile("^"+c.want+"$").Match(out) {
				t.Errorf("%v\n%s\n%s", err, out, &logs)
			}
		})
	}
}
