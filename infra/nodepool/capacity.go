package nodepool

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// ECS's defaults for a service that sets neither.
const (
	defaultDesired    = 1
	defaultMaxPercent = 200
)

// sizePools counts the node IDs that the services may hold. In a rolling deploy ECS runs up to desired count × maximum percent of a service's
// tasks, and the old and the new fleet hold node IDs at once. sizePools makes the seeds open groups for that many node IDs, and warns of pools
// that have fewer node IDs. It runs at the end, because services are usually made after their task definition was attached.
func (n *NodePool) sizePools() error {
	var services []awsecs.CfnService
	var targets []awsapplicationautoscaling.CfnScalableTarget
	for _, node := range *n.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		switch resource := node.(type) {
		case awsecs.CfnService:
			services = append(services, resource)
		case awsapplicationautoscaling.CfnScalableTarget:
			targets = append(targets, resource)
		}
	}
	for _, props := range n.props.Pools {
		pool := n.pools[props.Name]
		total, parts := pool.mostHeld(services, targets)
		pool.expect(total)
		pool.warnIfTooSmall(total, parts)
	}
	return nil
}

// expect makes the seed open groups for that many node IDs, unless Expect is set. In a pool that has up to 1,024 node IDs and is not
// narrow, all groups are open anyway.
func (p *Pool) expect(held int) {
	seed, made := p.nodes.seeds[p.props.Name]
	if !made || held == 0 || p.props.Expect > 0 || p.props.Size <= 1024 && !p.props.Narrow {
		return
	}
	seed.Node().DefaultChild().(awscdk.CfnResource).AddPropertyOverride(jsii.String("Expect"), strconv.Itoa(min(held, p.props.usable())))
}

// mostHeld returns the largest number of node IDs that the services may hold at once, as far as the synthesis can tell: one for each attached
// container of each task. parts are the terms of that sum.
func (p *Pool) mostHeld(services []awsecs.CfnService, targets []awsapplicationautoscaling.CfnScalableTarget) (total int, parts []string) {
	for _, holder := range p.holders {
		for _, service := range services {
			if !runs(service, holder.TaskDefinition()) {
				continue
			}
			desired, percent, ok := size(service, targets)
			if !ok {
				continue // a parameter or the number of machines sets the size, so the synthesis cannot tell it
			}
			need := int(math.Floor(desired * percent / 100))
			total += need
			parts = append(parts, fmt.Sprintf("container %s of %s: %v × %v %% = %d", *holder.ContainerName(), *service.Node().Path(), desired, percent, need))
		}
	}
	return total, parts
}

func (p *Pool) warnIfTooSmall(total int, parts []string) {
	if total > p.props.usable() {
		awscdk.Annotations_Of(p.nodes).AddWarningV2(jsii.String("nodelease:pool-too-small:"+p.props.Name), jsii.String(fmt.Sprintf(
			"pool %s has %d usable node IDs, but a rolling deploy may hold %d at once (%s): raise Size to %d or more, or lower the desired "+
				"count or the maximum percent", p.props.Name, p.props.usable(), total, strings.Join(parts, ", "), total+p.props.ExcludeBelow)))
	}
}

// runs reports whether the service runs the task definition: both are in one stack, and the service refers to it.
func runs(service awsecs.CfnService, task awsecs.TaskDefinition) bool {
	stack := awscdk.Stack_Of(service)
	return *stack.Node().Path() == *awscdk.Stack_Of(task).Node().Path() &&
		text(stack.Resolve(service.TaskDefinition())) == text(stack.Resolve(task.TaskDefinitionArn()))
}

// size returns the largest desired count that the service may have, including that to which autoscaling may raise it, and its maximum percent.
// ok is false if the synthesis does not know them.
func size(service awsecs.CfnService, targets []awsapplicationautoscaling.CfnScalableTarget) (desired, percent float64, ok bool) {
	// A daemon service has a task on each machine, and no desired count.
	if strategy := service.SchedulingStrategy(); strategy != nil && *strategy == "DAEMON" {
		return 0, 0, false
	}
	desired, percent = defaultDesired, defaultMaxPercent
	if count := service.DesiredCount(); count != nil {
		if *awscdk.Token_IsUnresolved(count) {
			return 0, 0, false
		}
		desired = *count
	}
	stack := awscdk.Stack_Of(service)
	name := text(stack.Resolve(service.AttrName()))
	for _, target := range targets {
		// Logical IDs are unique in one stack only: another stage of the app has the same ones.
		if *awscdk.Stack_Of(target).Node().Path() != *stack.Node().Path() {
			continue
		}
		if strings.Contains(text(stack.Resolve(target.ResourceId())), name) && !*awscdk.Token_IsUnresolved(target.MaxCapacity()) {
			desired = max(desired, *target.MaxCapacity())
		}
	}
	deployment, _ := stack.Resolve(service.DeploymentConfiguration()).(map[string]any)
	if p, set := deployment["maximumPercent"]; set {
		if percent, ok = p.(float64); !ok {
			return 0, 0, false
		}
	}
	return desired, percent, true
}

// text returns resolved tokens as JSON text, so that they can be compared.
func text(resolved any) string {
	b, err := json.Marshal(resolved)
	if err != nil {
		return ""
	}
	return string(b)
}
