// Package service is a sample to copy: an HTTP service on Fargate. Each of its tasks leases a node ID and generates IDs with it. The sample shows
// three things that a service with leases should do:
//
//   - The health checks of the container and of the load balancer test liveness, never readiness. While DynamoDB is unavailable, a task is
//     alive but not ready. If a check tested readiness, ECS would replace the whole fleet during the outage, and the new tasks could not start.
//   - A container that is stopped has time to drain and to release its lease. The load balancer stops sending requests before this time is
//     over.
//   - The tasks reach DynamoDB, ECR and the logs through VPC endpoints, from subnets without a route to the internet.
//
// Two things are left out: the load balancer speaks plain HTTP inside the VPC, and nothing scales automatically.
package service

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecrassets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// Props are the properties of the sample.
type Props struct {
	// Pool is the pool that the tasks lease from.
	Pool *nodepool.Pool

	// Source is the root of this repository, from which the image is built at deployment. Defaults to the directory where the app runs.
	Source string

	// DesiredCount is the desired number of tasks. Defaults to 2.
	DesiredCount int
}

const port = 8080

// New builds the network, the task and the service behind an internal load balancer.
func New(scope constructs.Construct, id string, props *Props) awsecs.FargateService {
	if props.DesiredCount == 0 {
		props.DesiredCount = 2
	}
	if props.Source == "" {
		props.Source = "."
	}
	s := constructs.NewConstruct(scope, jsii.String(id))
	vpc := newNetwork(s)
	task, container := newTask(s, props)
	props.Pool.Attach(task, container)

	service := awsecs.NewFargateService(s, jsii.String("Service"), &awsecs.FargateServiceProps{
		Cluster: awsecs.NewCluster(s, jsii.String("Cluster"), &awsecs.ClusterProps{
			Vpc: vpc, ContainerInsightsV2: awsecs.ContainerInsights_ENABLED,
		}),
		TaskDefinition:    task,
		DesiredCount:      jsii.Number(props.DesiredCount),
		MinHealthyPercent: jsii.Number(100),
		MaxHealthyPercent: jsii.Number(200), // the old and the new fleet hold node IDs at once while a new version rolls out
		CircuitBreaker:    &awsecs.DeploymentCircuitBreaker{Rollback: jsii.Bool(true)},
		AssignPublicIp:    jsii.Bool(false),
		VpcSubnets:        isolated(),
	})
	newLoadBalancer(s, vpc, service)
	return service
}

func newTask(s constructs.Construct, props *Props) (awsecs.FargateTaskDefinition, awsecs.ContainerDefinition) {
	cpu, platform := awsecs.CpuArchitecture_ARM64(), awsecrassets.Platform_LINUX_ARM64()
	if *props.Pool.Architecture().Name() == *awslambda.Architecture_X86_64().Name() {
		cpu, platform = awsecs.CpuArchitecture_X86_64(), awsecrassets.Platform_LINUX_AMD64()
	}
	task := awsecs.NewFargateTaskDefinition(s, jsii.String("Task"), &awsecs.FargateTaskDefinitionProps{
		Cpu:            jsii.Number(256),
		MemoryLimitMiB: jsii.Number(512),
		RuntimePlatform: &awsecs.RuntimePlatform{
			CpuArchitecture: cpu, OperatingSystemFamily: awsecs.OperatingSystemFamily_LINUX(),
		},
	})
	container := task.AddContainer(jsii.String("ids"), &awsecs.ContainerDefinitionOptions{
		Image: awsecs.ContainerImage_FromAsset(jsii.String(props.Source), &awsecs.AssetImageProps{
			File:       jsii.String("examples/service/Dockerfile"),
			Platform:   platform,
			IgnoreMode: awscdk.IgnoreMode_DOCKER,
			// The image is rebuilt only when these files change.
			Exclude: jsii.Strings("*", "!go.mod", "!go.sum", "!pkg", "!internal/ecs", "!internal/lastaddress", "!internal/protocol", "!internal/siblings", "!internal/tenure", "!internal/text", "!examples/service", "**/*_test.go"),
		}),
		PortMappings:           &[]*awsecs.PortMapping{{ContainerPort: jsii.Number(port)}},
		ReadonlyRootFilesystem: jsii.Bool(true),
		HealthCheck: &awsecs.HealthCheck{
			// The image has neither a shell nor curl, so the binary asks its own liveness check.
			Command:     jsii.Strings("CMD", "/service", "-healthcheck"),
			Interval:    awscdk.Duration_Seconds(jsii.Number(10)),
			Timeout:     awscdk.Duration_Seconds(jsii.Number(5)),
			StartPeriod: awscdk.Duration_Seconds(jsii.Number(30)),
		},
		Logging: awsecs.LogDriver_AwsLogs(&awsecs.AwsLogDriverProps{
			StreamPrefix: jsii.String("ids"),
			LogGroup: awslogs.NewLogGroup(s, jsii.String("Log"), &awslogs.LogGroupProps{
				Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
			}),
		}),
	})
	return task, container
}

func isolated() *awsec2.SubnetSelection {
	return &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}
}
