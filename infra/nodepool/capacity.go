package nodepool

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// ECS's defaults where a service does not say.
const (
	defaultDesired    = 1
	defaultMaxPercent = 200
)

// warnIfTooSmall warns of pools that a rolling deploy could run dry: ECS then runs up to desired count × maximum percent tasks, and the old
// and the new fleet hold numbers at once. It runs at the end, because services are usually made after their task definition was attached.
func (n *NodePool) warnIfTooSmall() error {
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
		n.pools[props.Name].warnIfTooSmall(services, targets)
	}
	return nil
}

func (p *Pool) warnIfTooSmall(services []awsecs.CfnService, targets []awsapplicationautoscaling.CfnScalableTarget) {
	total, parts := 0, []string{}
	for _, task := range p.tasks {
		for _, service := range services {
			if !runs(service, task) {
				continue
			}
			desired, percent, ok := size(service, targets)
			if !ok {
				continue // it comes from a parameter: nobody knows it at synth
			}
			need := int(math.Floor(desired * percent / 100))
			total += need
			parts = append(parts, fmt.Sprintf("%s: %v × %v %% = %d", *service.Node().Path(), desired, percent, need))
		}
	}
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

// size is the largest desired count that the service may have, counting what autoscaling may raise it to, and its maximum percent.
func size(service awsecs.CfnService, targets []awsapplicationautoscaling.CfnScalableTarget) (desired, percent float64, ok bool) {
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
		if strings.Contains(text(awscdk.Stack_Of(target).Resolve(target.ResourceId())), name) && !*awscdk.Token_IsUnresolved(target.MaxCapacity()) {
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

// text makes resolved tokens comparable.
func text(resolved any) string {
	b, err := json.Marshal(resolved)
	if err != nil {
		return ""
	}
	return string(b)
}
