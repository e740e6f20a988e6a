package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// The program of docs/operations.md is what someone will copy in the middle of a restore.
func TestOperationsPageCompiles(t *testing.T) {
	page := operations(t)
	programs := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(programs) == 0 {
		t.Fatal("the page has no program")
	}
	for i, p := range programs {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(p[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "program"), file)
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("program %d: %v\n%s", i+1, err, out)
		}
	}
}

// Whatever alarm wakes someone, the page says what to do.
func TestOperationsPageHasEveryAlarm(t *testing.T) {
	page, stack := operations(t), newStack(t, "")
	nodes := nodepool.New(stack, "Nodes", orders(nil))
	alarms := 0
	for _, child := range *nodes.Node().Children() {
		if _, ok := child.(awscloudwatch.Alarm); !ok {
			continue
		}
		alarms++
		id := strings.TrimPrefix(*child.Node().Id(), "orders-")
		if strings.HasSuffix(id, "-throttles") {
			id = "…-throttles"
		}
		if !regexp.MustCompile(`(?m)^\| ([a-z, -]+, )?` + regexp.QuoteMeta(id) + `(, [a-z, -]+)? \|`).MatchString(page) {
			t.Errorf("the page does not know the alarm %s", id)
		}
	}
	if want := len(template(t, stack).all("AWS::CloudWatch::Alarm")); alarms != want {
		t.Errorf("looked at %d alarms of %d", alarms, want)
	}
}

func operations(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
