package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// The page has a remedy for every alarm.
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
			t.Errorf("the page does not list the alarm %s", id)
		}
	}
	if want := len(template(t, stack).all("AWS::CloudWatch::Alarm")); alarms != want {
		t.Errorf("checked %d alarms of %d", alarms, want)
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
