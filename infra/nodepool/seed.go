package nodepool

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// seedTimeout is how many seconds CloudFormation waits for the bootstrap function's answer; its default is an hour. The time covers the
// function's own time-out and one retry of a throttled start.
const seedTimeout = 900

// seed makes the custom resource on which the bootstrap function seeds a new pool, and resizes a pool whose properties changed. Deleting the
// resource keeps every item: if the pool is added to Props again later, it continues where it stopped.
func (n *NodePool) seed(p PoolProps) awscdk.CustomResource {
	properties := map[string]any{
		// If the table changes, so does the ID space, and the function refuses to seed it without a Floor.
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
