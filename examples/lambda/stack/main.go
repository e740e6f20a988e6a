// Command stack is the CDK app of the example. It has a table with one pool, and a Lambda
// function (the program in the folder above) that leases from the pool. docs/lambda.md
// explains how to deploy it. These are the context values, with their defaults in brackets:
//
//	functions  the folder with the zips, including lambda.zip (dist/functions)
//	arch       the zips' architecture: arm64, amd64 or x86_64 (arm64)
//	throwaway  true: deleting the stack deletes the table too (false)
package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// concurrency is the largest number of environments at once. The pool has three times as
// many node IDs: a new version of the function replaces all environments, and environments
// that end keep their node IDs for up to the TTL.
const concurrency = 50

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	build(app)
	app.Synth(nil)
}

func build(app awscdk.App) {
	stack := awscdk.NewStack(app, jsii.String("NodeleaseLambda"), &awscdk.StackProps{Description: jsii.String("A function that makes IDs with leased node IDs")})
	value := func(key, otherwise string) string {
		if v := app.Node().TryGetContext(jsii.String(key)); v != nil {
			return fmt.Sprint(v)
		}
		return otherwise
	}
	dir := value("functions", "dist/functions")
	props := &nodepool.Props{FunctionsDir: dir, Pools: []nodepool.PoolProps{{Name: "orders", Size: 3 * concurrency}}}
	if value("throwaway", "") == "true" {
		props.RemovalPolicy, props.AllowDeletion = awscdk.RemovalPolicy_DESTROY, true
	}
	architecture := awslambda.Architecture_ARM_64()
	if arch := value("arch", "arm64"); arch == "amd64" || arch == "x86_64" {
		architecture = awslambda.Architecture_X86_64()
	}
	fn := awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: architecture, Handler: jsii.String("bootstrap"),
		Code:       awslambda.Code_FromAsset(jsii.String(dir+"/lambda.zip"), nil),
		MemorySize: jsii.Number(256), Timeout: awscdk.Duration_Seconds(jsii.Number(15)),
		ReservedConcurrentExecutions: jsii.Number(concurrency),
	})
	nodepool.New(stack, "Nodes", props).Pool("orders").AttachFunction(fn)
	awscdk.NewCfnOutput(stack, jsii.String("Function"), &awscdk.CfnOutputProps{Value: fn.FunctionName()})
}
