package main

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// The seed opens groups for the tasks that a rolling deploy may run at once: the maximum
// percent of the desired count, or of the count to which autoscaling may raise it.
func TestExpectFollowsTheServices(t *testing.T) {
	for name, c := range map[string]struct {
		pool                   nodepool.PoolProps
		desired, percent, most float64
		want                   any
	}{
		"a large pool":        {nodepool.PoolProps{Size: 16384}, 2000, 150, 0, "3000"},
		"autoscaling":         {nodepool.PoolProps{Size: 16384}, 2000, 150, 4000, "6000"},
		"a narrow pool":       {nodepool.PoolProps{Size: 1024, Narrow: true}, 100, 200, 0, "200"},
		"what is given":       {nodepool.PoolProps{Size: 16384, Expect: 9000}, 2000, 150, 0, "9000"},
		"more than there are": {nodepool.PoolProps{Size: 2048, ExcludeBelow: 48}, 2000, 200, 0, "2000"},
		"all groups are open": {nodepool.PoolProps{Size: 1024}, 100, 200, 0, nil},
		"no service":          {nodepool.PoolProps{Size: 16384}, 0, 0, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "")
			pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
				c.pool.Name = "orders"
				p.Pools[0] = c.pool
			})).Pool("orders")
			task := newTask(stack, "Task")
			addContainer(task, "app", 0)
			pool.Attach(task)
			if c.desired > 0 {
				vpc := awsec2.NewVpc(stack, jsii.String("Vpc"), &awsec2.VpcProps{NatGateways: jsii.Number(0)})
				service := awsecs.NewFargateService(stack, jsii.String("Service"), &awsecs.FargateServiceProps{
					Cluster: awsecs.NewCluster(stack, jsii.String("Cluster"), &awsecs.ClusterProps{Vpc: vpc}), TaskDefinition: task,
					DesiredCount: jsii.Number(c.desired), MaxHealthyPercent: jsii.Number(c.percent), MinHealthyPercent: jsii.Number(50),
				})
				if c.most > 0 {
					service.AutoScaleTaskCount(between(2, c.most))
				}
			}
			for _, seed := range template(t, stack).all("Custom::NodeleasePool") {
				if got := seed.Properties["Expect"]; got != c.want {
					t.Errorf("the seed's Expect is %v, want %v", got, c.want)
				}
			}
		})
	}
}
