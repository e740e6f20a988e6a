// Command eks is a CDK app for pods that lease: a table that another stack owns, and a role for the pods' service account, once by EKS Pod
// Identity and once by IRSA (an IAM role for service accounts). Copy the one that the cluster uses.
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
