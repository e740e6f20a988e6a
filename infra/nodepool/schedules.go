package nodepool

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// newQueue makes the queue for scheduled events that could not be delivered or processed. It is for people to read; nothing consumes it.
func (n *NodePool) newQueue() awssqs.Queue {
	queue := awssqs.NewQueue(n, jsii.String("Failed"), &awssqs.QueueProps{
		EnforceSSL:      jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
	})
	excuse(queue, excused{rule: "Serverless-SQSRedrivePolicy", reason: "This is the dead-letter queue; nothing consumes it."})
	return queue
}

// schedule runs the function at the interval Props.Every. It uses an EventBridge rule instead of the EventBridge Scheduler: a rule is enough,
// and emulators run it. An event is retried until the next one is due, after which it is stale.
func (n *NodePool) schedule(name string, queue awssqs.IQueue) {
	every := awscdk.Duration_Minutes(jsii.Number(n.props.Every.Minutes()))
	awsevents.NewRule(n, jsii.String(name+"-schedule"), &awsevents.RuleProps{
		Description: jsii.String("Runs the Nodelease " + name + " function"),
		Schedule:    awsevents.Schedule_Rate(every),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(n.functions[name], &awseventstargets.LambdaFunctionProps{
			DeadLetterQueue: queue,
			RetryAttempts:   jsii.Number(3),
			MaxEventAge:     every,
		})},
	})
}
