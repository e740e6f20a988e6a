package nodepool

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// seedTimeout in seconds is how long CloudFormation waits for the bootstrap function's answer. Without it a function that cannot answer
// holds the stack for an hour. It covers the function's own time-out and one retry of a throttled start.
const seedTimeout = 900

// seed asks the bootstrap function to seed the pool when it is new and to resize it when its properties change. Deleting the resource keeps
// every item: a pool that is named again later goes on where it stopped.
func (n *NodePool) seed(p PoolProps) awscdk.CustomResource {
	properties := map[string]any{
		// Another table is another ID space, which the function refuses to seed without a Floor.
		"Table":        n.table.TableName(),
		"Pool":         p.Name,
		"Size":         strconv.Itoa(p.Size), // CloudFormation hands numbers over as strings in any case
		"ExcludeBelow": strconv.Itoa(p.ExcludeBelow),
	}
	if !p.Floor.IsZero() {
		properties["Floor"] = strconv.FormatInt(p.Floor.UnixMilli(), 10)
	}
	if p.Layout != "" {
		properties["Layout"] = p.Layout
	}
	if p.Expect > 0 {
		properties["Expect"] = strconv.Itoa(p.Expect)
	}
	if p.Narrow {
		properties["Narrow"] = "true"
	}
	// The service token makes CloudFormation wait for the function, and the function for the table and for its role's policy.
	return awscdk.NewCustomResource(n, jsii.String("seed-"+p.Name), &awscdk.CustomResourceProps{
		ResourceType:   jsii.String("Custom::NodeleasePool"),
		ServiceToken:   n.functions[bootstrap].FunctionArn(),
		ServiceTimeout: awscdk.Duration_Seconds(jsii.Number(seedTimeout)),
		Properties:     &properties,
	})
}
