// Command eks is a CDK app for pods that lease node IDs from a table that another stack owns. It has two roles for the pods' service
// account: one by EKS Pod Identity, and one by IRSA (an IAM role for service accounts). Copy the one that your cluster supports.
//
//	npx cdk --app 'go run ./examples/eks' synth
package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/examples/eks/roles"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	roles.New(app)
	app.Synth(nil)
}
