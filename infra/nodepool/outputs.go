package nodepool

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// addOutputs adds the names that commands and other stacks need to the stack's outputs, so that nobody has to look them up. Each key begins
// with the construct's path in the stack: NodesTableName for a construct with the ID Nodes.
func (n *NodePool) addOutputs() {
	n.output("TableName", n.table.TableName(), "The table: NODELEASE_TABLE, and --table of the nodelease command")
	n.output("TableArn", n.table.TableArn(), "The table, for policies")
	n.output("BootstrapFunction", n.functions[bootstrap].FunctionName(), "Seeds and resizes pools")
	n.output("ReaperFunction", n.functions[reaper].FunctionName(), "Frees what crashed tasks left behind")
	n.output("PoolmetricFunction", n.functions[poolmetric].FunctionName(), "Measures the pools")
	n.output("Dashboard", n.dashboard.DashboardName(), "The CloudWatch dashboard")
	n.output("AlarmTopic", n.topic.TopicArn(), "The topic that all alarms go to: subscribe somebody")
	for _, p := range n.props.Pools {
		n.outputPolicy(n.pools[p.Name])
	}
}

func (n *NodePool) output(key string, value *string, description string) {
	output := awscdk.NewCfnOutput(n, jsii.String("Output"+key), &awscdk.CfnOutputProps{Value: value, Description: jsii.String(description)})
	output.OverrideLogicalId(jsii.String(n.outputPrefix() + key))
}

// outputPrefix returns the letters and digits of the construct's path in its stack.
func (n *NodePool) outputPrefix() string {
	inStack := strings.TrimPrefix(*n.Node().Path(), *awscdk.Stack_Of(n).Node().Path())
	return notAlphanumeric.ReplaceAllString(inStack, "")
}

// checkOutputs refuses two NodePools of a stack whose outputs would have the same keys, because their paths differ only in punctuation.
func (n *NodePool) checkOutputs() error {
	stack := awscdk.Stack_Of(n)
	for _, c := range *stack.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		other, ok := c.(*NodePool)
		if !ok || other == n || other.imported != nil || other.outputPrefix() != n.outputPrefix() || *awscdk.Stack_Of(other).Node().Path() != *stack.Node().Path() {
			continue
		}
		return fmt.Errorf("the outputs of %s and of %s would both be called %sTableName and so on, since the two IDs have the same letters and digits: give one of them another ID",
			*n.Node().Path(), *other.Node().Path(), n.outputPrefix())
	}
	return nil
}

var notAlphanumeric = regexp.MustCompile("[^0-9A-Za-z]")

// outputPolicy makes a managed policy with the permissions that GrantLease grants, to be attached to roles that no CDK app makes, and outputs
// its ARN. The output's key ends in a hash, since the names of two pools may differ only in punctuation; its description has the pool's name.
func (n *NodePool) outputPolicy(p *Pool) {
	var statements []awsiam.PolicyStatement
	for _, perm := range p.permissions() {
		statements = append(statements, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings(perm.actions...), Resources: n.tableARNs(), Conditions: perm.forStatement(),
		}))
	}
	if keys := n.keyARNs(); len(keys) > 0 {
		statements = append(statements, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: jsii.Strings(keyActions...), Resources: &keys}))
	}
	policy := awsiam.NewManagedPolicy(n, jsii.String("agent-"+p.props.Name), &awsiam.ManagedPolicyProps{
		Description: jsii.String("Leases node IDs of the Nodelease pool " + p.props.Name), Statements: &statements,
	})
	awscdk.NewCfnOutput(n, jsii.String("Policy-"+p.props.Name), &awscdk.CfnOutputProps{
		Value: policy.ManagedPolicyArn(), Description: jsii.String("Managed policy for roles that lease from the pool " + p.props.Name),
	})
}
