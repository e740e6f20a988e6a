package nodepool

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/internal/tenure"
)

// Sidecar is the container that AttachSidecar adds. Only Image is required.
type Sidecar struct {
	// Image has the nodelease command at /nodelease as its entry point: see cmd/nodelease/Dockerfile.
	Image awsecs.ContainerImage

	// Port is the port on the task's loopback interface, 1 to 65535. Defaults to 7373.
	Port int

	// MemoryLimitMiB is how much memory the container may use, in MiB; at least 32. Defaults to 128.
	MemoryLimitMiB int

	// Logging is the container's log driver. Defaults to none.
	Logging awsecs.LogDriver
}

// sidecarName is the name of the container that AttachSidecar adds.
const sidecarName = "nodelease"

// AttachSidecar adds `nodelease serve` to a task as a container named nodelease, for an application in any language (docs/sidecar.md). The
// application's container starts once the sidecar has a node ID, is stopped before the sidecar, and gets the variable NODELEASE_SIDECAR, such as
// http://127.0.0.1:7373. Only the sidecar gets the environment that Attach sets. When the lease is lost, the sidecar exits and ECS replaces
// the task.
//
// The containers must share a loopback interface, so the network mode has to be awsvpc, as on Fargate, or host. In host mode, all tasks of a
// machine share that interface: the port must then be free on the machine, and only one of these tasks can run on it.
func (p *Pool) AttachSidecar(task awsecs.TaskDefinition, app awsecs.ContainerDefinition, props *Sidecar) awsecs.ContainerDefinition {
	n, s := p.nodes, Sidecar{}
	if props != nil {
		s = *props
	}
	path := *task.Node().Path()
	if other := task.FindContainer(jsii.String(sidecarName)); other != nil {
		n.problems.addf("AttachSidecar(%s): the task has a container named %s already: attach one sidecar to a task; its other applications share it "+
			"if you give them the variable NODELEASE_SIDECAR too", path, sidecarName)
		return other // Invariant: every call works, since CDK would end the app at a second container of this name
	}
	if s.Image == nil {
		n.problems.addf("AttachSidecar(%s): Image is missing: give an image with the nodelease command, such as one of cmd/nodelease/Dockerfile", path)
		s.Image = awsecs.ContainerImage_FromRegistry(jsii.String("scratch"), nil) // never synthesized
	}
	if s.Port == 0 {
		s.Port = 7373
	}
	if s.Port < 1 || s.Port > 65535 {
		n.problems.addf("AttachSidecar(%s): Port is %d: use 1 to 65535, or leave it out for 7373", path, s.Port)
	}
	if s.MemoryLimitMiB == 0 {
		s.MemoryLimitMiB = 128
	}
	if s.MemoryLimitMiB < 32 {
		n.problems.addf("AttachSidecar(%s): MemoryLimitMiB is %d: use 32 or more, or leave it out for 128", path, s.MemoryLimitMiB)
		s.MemoryLimitMiB = 32
	}
	if mode := task.NetworkMode(); mode != awsecs.NetworkMode_AWS_VPC && mode != awsecs.NetworkMode_HOST {
		n.problems.addf("AttachSidecar(%s): the network mode is %s, in which containers do not share a loopback interface: use awsvpc", path, mode)
	}
	if other := *app.TaskDefinition().Node().Path(); other != path {
		n.problems.addf("AttachSidecar(%s): container %s belongs to another task definition; attach it with that one", path, *app.Node().Path())
	}
	// The sidecar has the default TTL. It would refuse to start with limits that contradict this TTL, and the deployment would be rolled back.
	limits := tenure.Timings{MaxTTL: p.props.MaxTTL, MaxReserve: p.props.MaxReserve}
	for _, err := range limits.Complete() {
		n.problems.addf("AttachSidecar(%s): the sidecar leases with a TTL of %v, which the limits of pool %s do not allow: %w", path, limits.TTL, p.props.Name, err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", s.Port)
	sidecar := task.AddContainer(jsii.String(sidecarName), &awsecs.ContainerDefinitionOptions{
		Image:                  s.Image,
		Essential:              jsii.Bool(true), // without it the application would have no IDs
		Command:                jsii.Strings("serve", "--listen", listen),
		MemoryLimitMiB:         jsii.Number(s.MemoryLimitMiB),
		ReadonlyRootFilesystem: jsii.Bool(true),
		StopTimeout:            awscdk.Duration_Seconds(jsii.Number(stopTimeout)),
		Logging:                s.Logging,
		HealthCheck: &awsecs.HealthCheck{
			// The command checks liveness, not readiness, because an outage of DynamoDB must not make ECS replace the fleet.
			Command:     jsii.Strings("CMD", "/nodelease", "serve", "--healthcheck", "--listen", listen),
			Interval:    awscdk.Duration_Seconds(jsii.Number(10)),
			Timeout:     awscdk.Duration_Seconds(jsii.Number(5)),
			StartPeriod: awscdk.Duration_Seconds(jsii.Number(60)),
		},
	})
	p.Attach(task, sidecar)
	// ECS starts a container after the containers that it depends on, and stops it before them.
	app.AddContainerDependencies(&awsecs.ContainerDependency{Container: sidecar, Condition: awsecs.ContainerDependencyCondition_HEALTHY})
	// Invariant (liveness): this is the variable from which the clients and the examples read the sidecar's address.
	app.AddEnvironment(jsii.String("NODELEASE_SIDECAR"), jsii.String("http://"+listen))
	n.problems.add(p.ensureStopTimeout(task, app))
	return sidecar
}
