package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

func newTask(stack awscdk.Stack, id string) awsecs.FargateTaskDefinition {
	return awsecs.NewFargateTaskDefinition(stack, jsii.String(id), nil)
}

func addContainer(task awsecs.TaskDefinition, name string, stopTimeout float64) awsecs.ContainerDefinition {
	options := &awsecs.ContainerDefinitionOptions{Image: awsecs.ContainerImage_FromRegistry(jsii.String("scratch"), nil)}
	if stopTimeout > 0 {
		options.StopTimeout = awscdk.Duration_Seconds(jsii.Number(stopTimeout))
	}
	return task.AddContainer(jsii.String(name), options)
}

func TestAttach(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	task := newTask(stack, "Task")
	addContainer(task, "proxy", 0)
	app := addContainer(task, "app", 0)
	worker := addContainer(task, "worker", 90)
	pool.Attach(task, app, worker)
	addContainer(task, "late", 0)

	stops := map[string]any{}
	for _, c := range template(t, stack).one(t, "AWS::ECS::TaskDefinition").Properties["ContainerDefinitions"].([]any) {
		def := c.(map[string]any)
		name := def["Name"].(string)
		stops[name] = def["StopTimeout"]
		env, _ := json.Marshal(def["Environment"])
		attached := name == "app" || name == "worker"
		if got := strings.Contains(string(env), `{"Name":"NODELEASE_POOL","Value":"orders"}`) &&
			strings.Contains(string(env), `{"Name":"NODELEASE_TABLE","Value":{"Ref":"NodesTable`); got != attached {
			t.Errorf("%s has the environment %s", name, env)
		}
	}
	if stops["proxy"] != nil || stops["app"] != 60.0 || stops["worker"] != 90.0 || stops["late"] != nil {
		t.Errorf("the stop time-outs are %v", stops)
	}
}

// A service starts its tasks as soon as its task definition exists. The task definition, and a function that depends on Seeded, come after the seed.
func TestTasksWaitForTheSeed(t *testing.T) {
	stack := newStack(t, "")
	nodes := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 8})
	}))
	task, free := newTask(stack, "Task"), newTask(stack, "Free")
	addContainer(task, "app", 0)
	addContainer(free, "app", 0)
	nodes.Pool("orders").Attach(task)
	topic := awssns.NewTopic(stack, jsii.String("Waiting"), nil)
	topic.Node().AddDependency(nodes.Pool("mail").Seeded())
	doc := template(t, stack)
	found := 0
	for id, r := range doc.Resources {
		want := map[string]string{"Task": "Nodesseedorders", "Waiting": "Nodesseedmail"}[strings.TrimRight(id, "0123456789ABCDEF")]
		if r.Type != "AWS::ECS::TaskDefinition" && r.Type != "AWS::SNS::Topic" {
			continue
		}
		found++
		if waits := strings.Join(r.DependsOn, " "); want != "" && !strings.Contains(waits, want) || want == "" && strings.Contains(waits, "seed") {
			t.Errorf("%s waits for %q, want %q", id, waits, want)
		}
	}
	if found != 4 {
		t.Errorf("checked %d resources, want 4", found)
	}
}

func TestAttachTakesTheDefaultContainer(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	task := newTask(stack, "Task")
	addContainer(task, "app", 0)
	pool.Attach(task)
	text, _ := json.Marshal(template(t, stack).one(t, "AWS::ECS::TaskDefinition").Properties)
	if !strings.Contains(string(text), "NODELEASE_POOL") {
		t.Error("the container does not get its pool")
	}
}

func TestWrongAttach(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(stack awscdk.Stack, nodes *nodepool.NodePool)
		want []string
	}{
		"no container": {func(stack awscdk.Stack, nodes *nodepool.NodePool) {
			nodes.Pool("orders").Attach(newTask(stack, "Task"))
		}, []string{"Test/Task", "no container yet"}},
		"another task's container": {func(stack awscdk.Stack, nodes *nodepool.NodePool) {
			nodes.Pool("orders").Attach(newTask(stack, "Task"), addContainer(newTask(stack, "Other"), "app", 0))
		}, []string{"Test/Other/app", "belongs to another task definition"}},
		"two pools": {func(stack awscdk.Stack, nodes *nodepool.NodePool) {
			task := newTask(stack, "Task")
			c := addContainer(task, "app", 0)
			nodes.Pool("orders").Attach(task, c)
			nodes.Pool("mail").Attach(task, c)
		}, []string{"to pool orders and to pool mail", "lease.Config.Pool"}},
		"stops too soon": {func(stack awscdk.Stack, nodes *nodepool.NodePool) {
			task := newTask(stack, "Task")
			nodes.Pool("orders").Attach(task, addContainer(task, "app", 2))
		}, []string{"StopTimeout of 2 s", "10 s or more"}},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "")
			tt.do(stack, nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
				p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 8})
			})))
			wantRefused(t, stack, tt.want...)
		})
	}
}

// serve makes a service that runs the task. If desired or percent is 0, the service has ECS's default.
func serve(stack awscdk.Stack, task awsecs.FargateTaskDefinition, id string, desired, percent float64) awsecs.FargateService {
	cluster, ok := stack.Node().TryFindChild(jsii.String("Cluster")).(awsecs.Cluster)
	if !ok {
		vpc := awsec2.NewVpc(stack, jsii.String("Vpc"), &awsec2.VpcProps{NatGateways: jsii.Number(0)})
		cluster = awsecs.NewCluster(stack, jsii.String("Cluster"), &awsecs.ClusterProps{Vpc: vpc})
	}
	props := &awsecs.FargateServiceProps{Cluster: cluster, TaskDefinition: task}
	if desired > 0 {
		props.DesiredCount = jsii.Number(desired)
	}
	if percent > 0 {
		props.MaxHealthyPercent, props.MinHealthyPercent = jsii.Number(percent), jsii.Number(50)
	}
	return awsecs.NewFargateService(stack, jsii.String(id), props)
}

// Each attached container of a task holds a node ID of its own.
func TestTwoContainersOfATask(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Size = 10 })).Pool("orders")
	task := newTask(stack, "Task")
	pool.Attach(task, addContainer(task, "app", 0), addContainer(task, "worker", 0))
	serve(stack, task, "A", 3, 200)
	want := "may hold 12 at once (container app of Test/A/Service: 3 × 200 % = 6, container worker of Test/A/Service: 3 × 200 % = 6)"
	warnings := *assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("rolling deploy")))
	if len(warnings) != 1 || !strings.Contains(warnings[0].Entry.Data.(string), want) {
		t.Errorf("got %d warnings, want one that the pool %s", len(warnings), want)
	}
}

// In a rolling deploy, the old and the new fleet hold node IDs at once.
func TestTooSmallAPool(t *testing.T) {
	for name, tt := range map[string]struct {
		services func(stack awscdk.Stack, task awsecs.FargateTaskDefinition)
		want     string // "" if no warning is expected
	}{
		"fits": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			serve(stack, task, "A", 5, 200)
		}, ""},
		"one too many": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			serve(stack, task, "A", 6, 200)
		}, "may hold 12 at once"},
		"percent": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			serve(stack, task, "A", 10, 110)
		}, "= 11): raise Size to 13 or more"},
		"defaults": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			serve(stack, task, "A", 0, 0)
		}, ""},
		"two services": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			serve(stack, task, "A", 3, 200)
			serve(stack, task, "B", 3, 200)
		}, "may hold 12 at once"},
		"autoscaling": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			serve(stack, task, "A", 2, 200).AutoScaleTaskCount(between(2, 8))
		}, "may hold 16 at once"},
		"another task": {func(stack awscdk.Stack, task awsecs.FargateTaskDefinition) {
			other := newTask(stack, "Other")
			addContainer(other, "app", 0)
			serve(stack, other, "A", 100, 200)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "")
			pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Size, p.Pools[0].ExcludeBelow = 12, 2 })).Pool("orders")
			task := newTask(stack, "Task")
			addContainer(task, "app", 0)
			pool.Attach(task)
			tt.services(stack, task)

			warnings := *assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("rolling deploy")))
			if tt.want == "" && len(warnings) > 0 || tt.want != "" && len(warnings) != 1 {
				t.Fatalf("there are %d warnings", len(warnings))
			}
			for _, w := range warnings {
				if text := w.Entry.Data.(string); !strings.Contains(text, tt.want) || !strings.Contains(text, "10 usable node IDs") {
					t.Errorf("the warning is %q, want %q in it", text, tt.want)
				}
			}
		})
	}
}

func between(min, max float64) *awsapplicationautoscaling.EnableScalingProps {
	return &awsapplicationautoscaling.EnableScalingProps{MinCapacity: jsii.Number(min), MaxCapacity: jsii.Number(max)}
}

// A container that was not created by AddContainer can be anywhere in the rendered list.
func TestAttachAmongForeignContainers(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	task := newTask(stack, "Task")
	awsecs.NewContainerDefinition(stack, jsii.String("Foreign"), &awsecs.ContainerDefinitionProps{
		TaskDefinition: task, Image: awsecs.ContainerImage_FromRegistry(jsii.String("scratch"), nil),
	})
	pool.Attach(task, addContainer(task, "app", 0))
	wantRefused(t, stack, "container Test/Task/app cannot be set from here", "set StopTimeout to 60 s")
}

// The services and scalable targets of another stack with equal logical IDs, such as those of
// a second stage in the same app, say nothing about the size of this stack's services.
func TestAutoscalingOfAnotherStage(t *testing.T) {
	app := newApp(t, nil)
	stage := func(id string, most float64) awscdk.Stack {
		stack := awscdk.NewStack(app, jsii.String(id), nil)
		pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Size, p.Pools[0].Narrow = 40, true })).Pool("orders")
		task := newTask(stack, "Task")
		addContainer(task, "app", 0)
		pool.Attach(task)
		serve(stack, task, "A", 2, 200).AutoScaleTaskCount(between(2, most))
		return stack
	}
	test := stage("Staging", 4)
	stage("Production", 20)
	if expect := template(t, test).one(t, "Custom::NodeleasePool").Properties["Expect"]; expect != "8" {
		t.Errorf("the pool of a service that grows to 4 tasks expects %v holders, want 8", expect)
	}
}

// A daemon service runs one task on each machine of the cluster. The synthesis does not know how many machines there are, so it computes no Expect.
func TestDaemonService(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Size = 4096 })).Pool("orders")
	task := awsecs.NewEc2TaskDefinition(stack, jsii.String("Task"), nil)
	pool.Attach(task, task.AddContainer(jsii.String("app"), &awsecs.ContainerDefinitionOptions{
		Image: awsecs.ContainerImage_FromRegistry(jsii.String("scratch"), nil), MemoryLimitMiB: jsii.Number(64),
	}))
	vpc := awsec2.NewVpc(stack, jsii.String("Vpc"), &awsec2.VpcProps{NatGateways: jsii.Number(0)})
	cluster := awsecs.NewCluster(stack, jsii.String("Cluster"), &awsecs.ClusterProps{Vpc: vpc})
	cluster.AddCapacity(jsii.String("Machines"), &awsecs.AddCapacityOptions{InstanceType: awsec2.NewInstanceType(jsii.String("m7i.large"))})
	awsecs.NewEc2Service(stack, jsii.String("A"), &awsecs.Ec2ServiceProps{Cluster: cluster, TaskDefinition: task, Daemon: jsii.Bool(true)})
	if expect := template(t, stack).one(t, "Custom::NodeleasePool").Properties["Expect"]; expect != nil {
		t.Errorf("the pool of a daemon service expects %v holders, want no Expect", expect)
	}
}
