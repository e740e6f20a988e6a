package nodepool

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// What each role may do with the items of its pools. All changes are conditional UpdateItem calls: PutItem and DeleteItem could make a lease
// forget how far its IDs went, and are given to nobody.
var tableActions = map[string][]string{
	"agent":    {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"},
	bootstrap:  {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"},
	reaper:     {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"},
	poolmetric: {"dynamodb:GetItem", "dynamodb:Query"},
}

// GrantLease lets the grantee hold leases of this pool and of no other pool in the table, and see how the table replicates, which is checked
// at start.
func (p *Pool) GrantLease(grantee awsiam.IGrantable) awsiam.Grant {
	return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
		Grantee:      grantee,
		Actions:      jsii.Strings(tableActions["agent"]...),
		ResourceArns: p.nodes.tableARNs(),
		Conditions:   &map[string]*map[string]any{"ForAllValues:StringLike": leadingKeys(p.props.Name)},
	}).Combine(awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
		Grantee: grantee,
		// A statement of its own: DescribeTable has no leading keys, and under that condition some callers would be denied it.
		Actions:      jsii.Strings("dynamodb:DescribeTable"),
		ResourceArns: p.nodes.tableARNs(),
	}))
}

// allow gives a function's role what that function is for.
func (n *NodePool) allow(name string, role awsiam.Role) {
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions:    jsii.Strings(tableActions[name]...),
		Resources:  &[]*string{n.table.TableArn()},
		Conditions: &map[string]any{"ForAllValues:StringLike": leadingKeys(n.names()...)},
	}))
	if name == poolmetric {
		// PutMetricData knows no resources; the namespace is what it can be held to.
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions:    jsii.Strings("cloudwatch:PutMetricData"),
			Resources:  jsii.Strings("*"),
			Conditions: &map[string]any{"StringEquals": map[string]any{"cloudwatch:namespace": metricNamespace}},
		}))
	}
}

// leadingKeys restrict a statement to the partitions of these pools: the pool's own item, and everything else behind a '#', which no pool's
// name can contain.
func leadingKeys(pools ...string) *map[string]any {
	var keys []string
	for _, pool := range pools {
		keys = append(keys, pool, pool+"#*")
	}
	return &map[string]any{"dynamodb:LeadingKeys": keys}
}
