// Command stack is a custom CDK app with the construct. Its node IDs survive the outage of
// a Region, and its alarms have a subscriber. Copy it if infra, which is the smallest
// useful app, is not enough. The functions' zips are in dist/functions (make functions
// ARCH=amd64).
//
//	npx cdk --app 'go run ./examples/stack' synth
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/examples/stack/regions"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	regions.New(app, "dist/functions")
	app.Synth(nil)
}
