package nodepool

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// The functions. Each has the name of its zip.
const (
	bootstrap  = "bootstrap"  // seeds and resizes pools when the stack is deployed
	reaper     = "reaper"     // frees what crashed tasks left behind
	poolmetric = "poolmetric" // measures the pools
)

var functionNames = []string{bootstrap, reaper, poolmetric}

// timeouts are in seconds. The bootstrap function writes once per node ID, and twice if a resize adds it, at 1,000 writes a second or less:
// 65,536 node IDs take 66 or 132 s, and ten minutes leave room for throttling. The reaper frees node IDs at the same rate, and does not wait between its scans.
var timeouts = map[string]float64{bootstrap: 600, reaper: 300, poolmetric: 60}

const functionMemory = 256 // MiB; also sets the share of a CPU

// setArchitecture sets the architecture to Props.Architecture or else to the context value "arch". On an error it sets arm64, so that the other
// properties can still be checked.
func (n *NodePool) setArchitecture() error {
	n.arch = awslambda.Architecture_ARM_64()
	if n.props.Architecture != nil {
		n.arch = n.props.Architecture
		return nil
	}
	switch arch := n.Node().TryGetContext(jsii.String("arch")); arch {
	case nil, "", "arm64":
	case "amd64", "x86_64":
		n.arch = awslambda.Architecture_X86_64()
	default:
		return fmt.Errorf("the context value arch is %q: use arm64, amd64 or x86_64, the one that the zips were built for", arch)
	}
	return nil
}

// newFunction makes a function and its role. The role may write the function's own log, send failed events to the queue, and
// do what allow grants.
func (n *NodePool) newFunction(name string, queue awssqs.IQueue) awslambda.Function {
	logs := awslogs.NewLogGroup(n, jsii.String(name+"-log"), &awslogs.LogGroupProps{
		Retention:     n.props.LogRetention,
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	role := awsiam.NewRole(n, jsii.String(name+"-role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("Nodelease " + name + " function"),
	})
	logs.GrantWrite(role)
	n.allow(name, role)
	if name == poolmetric {
		excuse(role.Node().FindChild(jsii.String("DefaultPolicy")), excused{rule: "AwsSolutions-IAM5", finding: "Resource::*",
			reason: "PutMetricData knows no resources; the statement is held to the namespace Nodelease instead."})
	}

	props := &awslambda.FunctionProps{
		Description:   jsii.String("Nodelease " + name),
		Runtime:       awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:  n.arch,
		Handler:       jsii.String("bootstrap"),
		Code:          awslambda.Code_FromAsset(jsii.String(filepath.Join(n.props.FunctionsDir, name+".zip")), nil),
		MemorySize:    jsii.Number(functionMemory),
		Timeout:       awscdk.Duration_Seconds(jsii.Number(timeouts[name])),
		LogGroup:      logs,
		Role:          role,
		RetryAttempts: jsii.Number(1),
		MaxEventAge:   awscdk.Duration_Minutes(jsii.Number(10)),
		Environment:   &map[string]*string{"NODELEASE_TABLE": n.table.TableName(), "NODELEASE_POOLS": jsii.String(n.props.poolsJSON())},
	}
	if name == bootstrap {
		// If its work fails, the function first reports that to CloudFormation, and then returns an error, which sets off the alarm. Lambda must
		// not repeat the event, since that could undo a rollback.
		props.RetryAttempts = jsii.Number(0)
	} else {
		props.DeadLetterQueue = queue
	}
	function := awslambda.NewFunction(n, jsii.String(name), props)
	config := function.Node().FindChild(jsii.String("EventInvokeConfig"))
	if name == bootstrap {
		excuse(function, noTracing, excused{rule: "Serverless-LambdaDLQ", reason: answersItself})
		excuse(config, excused{rule: "Serverless-LambdaAsyncFailureDestination", reason: answersItself})
	} else {
		excuse(function, noTracing)
		excuse(config, excused{rule: "Serverless-LambdaAsyncFailureDestination", reason: usesQueue})
	}
	return function
}

// poolsJSON returns the list of the pools that the stack declares, for the functions.
func (p Props) poolsJSON() string {
	type pool struct {
		Pool         string `json:"pool"`
		Size         int    `json:"size"`
		ExcludeBelow int    `json:"excludeBelow"`
	}
	list := make([]pool, 0, len(p.Pools))
	for _, o := range p.Pools {
		list = append(list, pool{o.Name, o.Size, o.ExcludeBelow})
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return string(text)
}
