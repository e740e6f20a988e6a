package nodepool

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/jsii-runtime-go"
)

// How many seconds ECS waits after SIGTERM before it kills a container. In that time the service drains and then releases its lease. If it is
// killed before the release, its node ID stays taken until the lease expires.
const (
	stopTimeout    = 60 // the value that Attach sets if none is set; ECS's own default is 30
	minStopTimeout = 10
)

// Attach lets the containers of a task lease from this pool. The task's role gets the permissions of GrantLease. The containers get
// NODELEASE_TABLE and NODELEASE_POOL, with which lease.Start needs no configuration, and the pool's MaxTTL and MaxReserve, if set. Without
// containers, Attach uses the task's default container (its first essential one). Each container holds a node ID of its own. A container
// without a stop time-out gets one of 60 s.
// CloudFormation creates the task definition, and so every service that runs it, after the pool has been seeded.
//
// The synthesis warns if the services that run the pool's tasks may hold more node IDs during a rolling deploy than the pool has.
func (p *Pool) Attach(task awsecs.TaskDefinition, containers ...awsecs.ContainerDefinition) {
	n := p.nodes
	if len(containers) == 0 {
		container := task.DefaultContainer()
		if container == nil {
			n.problems.addf("Attach(%s): the task definition has no container yet; add its containers before, or name them", *task.Node().Path())
			return
		}
		containers = []awsecs.ContainerDefinition{container}
	}
	p.GrantLease(task.TaskRole())
	// Tasks of an unseeded pool would fail until the deployment's circuit breaker rolls it back.
	if seed, ok := n.seeds[p.props.Name]; ok {
		task.Node().DefaultChild().Node().AddDependency(seed)
	}
	for _, c := range containers {
		path := *c.Node().Path()
		if *c.TaskDefinition().Node().Path() != *task.Node().Path() {
			n.problems.addf("Attach(%s): container %s belongs to another task definition; attach it with that one", *task.Node().Path(), path)
			continue
		}
		if other, ok := n.containers[path]; ok {
			n.problems.addf("Attach: container %s is attached to pool %s and to pool %s, but its environment names one: keep one Attach, "+
				"give the task role GrantLease on the other pool and name that one in lease.Config.Pool", path, other, p.props.Name)
			continue
		}
		n.containers[path] = p.props.Name
		c.AddEnvironment(jsii.String("NODELEASE_TABLE"), n.tableForTasks())
		c.AddEnvironment(jsii.String("NODELEASE_POOL"), jsii.String(p.props.Name))
		if d := p.props.MaxTTL; d > 0 {
			c.AddEnvironment(jsii.String("NODELEASE_MAX_TTL"), jsii.String(d.String()))
		}
		if d := p.props.MaxReserve; d > 0 {
			c.AddEnvironment(jsii.String("NODELEASE_MAX_RESERVE"), jsii.String(d.String()))
		}
		n.problems.add(p.ensureStopTimeout(task, c))
		p.holders = append(p.holders, c)
	}
}

// ensureStopTimeout makes sure that the container has time to drain and to release its lease. A container definition cannot be changed once it is
// made. But the template that its task definition renders can be changed, at the container's index in the list.
func (p *Pool) ensureStopTimeout(task awsecs.TaskDefinition, c awsecs.ContainerDefinition) error {
	path := *c.Node().Path()
	if set := c.RenderContainerDefinition(task).StopTimeout; set != nil {
		if *set < minStopTimeout {
			return fmt.Errorf("Attach: container %s has a StopTimeout of %v s: set it to %d s or more in the container's options, so that it "+
				"can drain and release its node ID", path, *set, minStopTimeout)
		}
		return nil
	}
	resource, place := task.Node().DefaultChild().(awsecs.CfnTaskDefinition), placeOf(task, c)
	resource.AddPropertyOverride(jsii.String(fmt.Sprintf("ContainerDefinitions.%d.StopTimeout", place)), stopTimeout)
	// The list is read only when it is complete, because CDK renders it once: reading it earlier would freeze it.
	p.nodes.problems.addLater(func() error {
		rendered, _ := awscdk.Stack_Of(task).Resolve(resource.ContainerDefinitions()).([]any)
		if place < len(rendered) && rendered[place].(map[string]any)["name"] == *c.ContainerName() {
			return nil
		}
		return fmt.Errorf("Attach: the stop time-out of container %s cannot be set from here, since the task definition has containers that "+
			"were not made by its AddContainer: set StopTimeout to %d s in the container's options", path, stopTimeout)
	})
	return nil
}

// placeOf returns the container's index in the rendered list: the number of containers that were added to the task before this one.
func placeOf(task awsecs.TaskDefinition, c awsecs.ContainerDefinition) int {
	place := 0
	for _, child := range *task.Node().Children() {
		if *child.Node().Path() == *c.Node().Path() {
			break
		}
		if _, ok := child.(awsecs.ContainerDefinition); ok {
			place++
		}
	}
	return place
}
