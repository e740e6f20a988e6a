package main

import (
	"testing"

	"github.com/nodelease/nodelease/examples/stack/regions"
)

// The example of a custom app synthesizes what its comments say.
func TestExampleStack(t *testing.T) {
	doc := template(t, regions.New(newApp(t, nil), amdZips))
	table := doc.one(t, tableType).Properties
	if table["MultiRegionConsistency"] != "STRONG" || table["TableName"] != "node-ids" {
		t.Errorf("the table is %v", table)
	}
	if n := len(doc.all("AWS::SNS::Subscription")); n != 1 {
		t.Errorf("%d subscribers get alarms", n)
	}
}
