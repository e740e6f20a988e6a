// Command stack is a custom CDK app around the construct, for node IDs that must
// outlast a Region, with alarms that reach someone. Copy it when infra, the smallest
// useful app, is outgrown. The functions' zips are in dist/functions (make functions
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
