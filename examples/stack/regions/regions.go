// Package regions has the stack of the example: node IDs that survive the outage of a Region, and alarms with a subscriber.
package regions

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// New puts the stack into the app. The functions' zips are in the directory.
func New(app awscdk.App, functions string) awscdk.Stack {
	stack := awscdk.NewStack(app, jsii.String("NodeIDs"), &awscdk.StackProps{
		Env: &awscdk.Environment{Region: jsii.String("us-east-1")}, // a table with replicas has to know its own Region
	})
	nodes := nodepool.New(stack, "Nodes", &nodepool.Props{
		Pools: pools(),

		// Writes are confirmed by two of three Regions; the third keeps no copy that could be read, and costs less.
		TableName:   "node-ids",
		Replicas:    []string{"us-east-2"},
		Witness:     "us-west-2",
		Consistency: awsdynamodb.MultiRegionConsistency_STRONG,

		// Customer-managed keys, in each Region that stores the table.
		Key: awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String("arn:aws:kms:us-east-1:111111111111:key/1c3f8a52-0000-4000-8000-000000000001")),
		ReplicaKeys: map[string]string{
			"us-east-2": "arn:aws:kms:us-east-2:111111111111:key/1c3f8a52-0000-4000-8000-000000000002",
		},

		FunctionsDir: functions,
		Architecture: awslambda.Architecture_X86_64(),
		Every:        5 * time.Minute, // no task waits for the reaper
		LogRetention: awslogs.RetentionDays_THREE_MONTHS,

		AlarmTopic:       awssns.NewTopic(stack, jsii.String("OnCall"), nil),
		UtilizationAlarm: 45,            // a rolling deploy doubles the utilization
		ExhaustionAlarm:  4 * time.Hour, // somebody has to be woken up first
		ExpiredAlarm:     10,            // spot instances come and go
	})
	nodes.AlarmTopic().AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String("on-call@example.org"), nil))

	// A process on EC2 leases with its instance's role, as a task does with its own.
	workers := awsiam.NewRole(stack, jsii.String("Workers"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("ec2.amazonaws.com"), nil),
	})
	nodes.Pool("invoices").GrantLease(workers)
	workers.Node().AddDependency(nodes.Pool("invoices").Seeded()) // nothing runs with the role before there are node IDs

	// A role of another account has been given the statements of GrantLease there (docs/iam.md), and is given access here.
	billing := awsiam.Role_FromRoleArn(stack, jsii.String("Billing"), jsii.String("arn:aws:iam::222222222222:role/billing"),
		&awsiam.FromRoleArnOptions{Mutable: jsii.Bool(false)})
	nodes.Pool("invoices").GrantLease(billing)
	nodes.Pool("invoices").GrantedElsewhere(billing)
	nodes.Pool("invoices").GrantAccess(billing)

	python(stack, nodes.Pool("orders"))

	// The rights that nodelease list, stats and doctor need.
	people := awsiam.NewRole(stack, jsii.String("People"), &awsiam.RoleProps{AssumedBy: awsiam.NewAccountRootPrincipal()})
	nodes.Table().GrantReadData(people)
	return stack
}

// python is a task whose application is not written in Go: it requests IDs from the sidecar at NODELEASE_SIDECAR (examples/python).
func python(stack awscdk.Stack, pool *nodepool.Pool) {
	task := awsecs.NewFargateTaskDefinition(stack, jsii.String("Python"), nil)
	app := task.AddContainer(jsii.String("app"), &awsecs.ContainerDefinitionOptions{
		Image: awsecs.ContainerImage_FromRegistry(jsii.String("example.org/app:1"), nil),
	})
	pool.AttachSidecar(task, app, &nodepool.Sidecar{
		Image:          awsecs.ContainerImage_FromRegistry(jsii.String("example.org/nodelease:1"), nil), // of cmd/nodelease/Dockerfile
		Port:           7000,
		MemoryLimitMiB: 64,
		Logging:        awsecs.LogDriver_AwsLogs(&awsecs.AwsLogDriverProps{StreamPrefix: jsii.String("nodelease")}),
	})
}

func pools() []nodepool.PoolProps {
	return []nodepool.PoolProps{
		// The pool may have up to 16,384 tasks one day. While there are few tasks, the bits that their node IDs do not need extend the
		// sequence.
		{Name: "orders", Size: 16384, Expect: 15000, Layout: "wide16", Narrow: true, MaxTTL: 5 * time.Minute, MaxReserve: time.Minute},
		// Node IDs 0 to 31 are in the configuration of processes that are still to be moved (docs/migration.md), which have made IDs since
		// 2025.
		{Name: "invoices", Size: 256, ExcludeBelow: 32, Floor: time.Date(2025, 7, 1, 0, 0, 0, 0, time.UTC)},
	}
}
