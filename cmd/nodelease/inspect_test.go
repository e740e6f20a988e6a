package main

import (
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// A node ID that was never held, and rests until a floor has passed, has no last holder.
func TestNoLastHolderOfANewNodeID(t *testing.T) {
	client := dynamotest.Embedded(t)
	flags := []string{"--endpoint", *client.Options().BaseEndpoint, "--table", dynamotest.CreateTable(t, client), "--pool", "orders"}
	if code, _, stderr := call(append([]string{"seed", "--size", "2", "--floor", "+1h"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	code, out, stderr := call(append([]string{"inspect", "1"}, flags...)...)
	if code != 0 || !strings.Contains(out, "cooling") || !strings.Contains(out, "once the reserved time has passed") || strings.Contains(out, "last holder") {
		t.Errorf("got exit code %d, %s%s, want a cooling node ID without a last holder", code, out, stderr)
	}
}
