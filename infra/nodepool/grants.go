package nodepool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/internal/protocol"
)

// tableActions are the calls that each function may make on the items of its pools. PutItem and DeleteItem are granted to nobody, because they
// could erase how far the IDs of a lease went. Every change is a conditional UpdateItem.
var tableActions = map[string][]string{
	bootstrap:  {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"},
	reaper:     {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"},
	poolmetric: {"dynamodb:GetItem", "dynamodb:Query"},
}

// GrantLease lets the grantee hold leases of this pool, but of no other pool in the table. It also lets the grantee read how the table replicates,
// which an agent checks at start. If this app cannot change the role (it belongs to another account, or was imported as immutable), the synthesis
// reports that, with the statements that the role needs. After attaching them to the role, call GrantedElsewhere.
func (p *Pool) GrantLease(grantee awsiam.IGrantable) awsiam.Grant {
	n := p.nodes
	var grant awsiam.Grant
	for _, perm := range p.permissions() {
		one := awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
			Grantee: grantee, Actions: jsii.Strings(perm.actions...), ResourceArns: n.tableARNs(), Conditions: perm.forGrant(),
		})
		if grant == nil {
			grant = one
		} else {
			grant = grant.Combine(one)
		}
	}
	if keys := n.keyARNs(); len(keys) > 0 {
		n.props.Key.GrantEncryptDecrypt(grantee) // also adds the grantee to the key's policy, if the account does not delegate it to IAM
		if replicas := keys[1:]; len(replicas) > 0 {
			awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{Grantee: grantee, Actions: jsii.Strings(keyActions...), ResourceArns: &replicas})
		}
	}
	if n.otherAccount() {
		awscdk.Annotations_Of(n).AddWarningV2(jsii.String("nodelease:other-account:"+p.props.Name), jsii.String(fmt.Sprintf(
			"the table %s is of another account, which has to let the roles of pool %s in: call Pool(%q).GrantAccess with them in its stack, or add to the table's resource policy: %s",
			n.imported.TableArn, p.props.Name, p.props.Name, text(p.accessStatement("the role's ARN")))))
	}
	if has, ok := grantee.(interface{ Role() awsiam.IRole }); ok { // a function, an instance
		if has.Role() == nil {
			n.problems.addf("GrantLease: pool %s cannot be granted to a function that was imported without its role: import it with Role, or grant its role", p.props.Name)
			return grant
		}
		grantee = has.Role()
	}
	role, isRole := grantee.(awsiam.IRole)
	if isRole || !*grant.Success() {
		principal := principalOf(grantee)
		n.problems.addLater(func() error {
			if p.granted[principal] || isRole && hasPolicy(role) {
				return nil
			}
			return fmt.Errorf("GrantLease: pool %s cannot be granted to %s, which this app cannot change. Attach these statements to it where it is managed, "+
				"then call Pool(%q).GrantedElsewhere with it: %s. If it belongs to another account than the table, that is not enough: call Pool(%q).GrantAccess with it "+
				"in the table's own stack too, which adds this statement to the table's resource policy: %s",
				p.props.Name, principal, p.props.Name, text(append(p.statements(p.arnPatterns()...), n.keyStatements()...)), p.props.Name, text(p.accessStatement(principal)))
		})
	}
	return grant
}

// GrantedElsewhere declares that the statements of GrantLease have been attached to the grantee where it is managed, so that GrantLease and
// Attach need not add them.
func (p *Pool) GrantedElsewhere(grantee awsiam.IGrantable) { p.granted[principalOf(grantee)] = true }

// GrantAccess adds statements to the table's resource policy that let a principal of
// another account use this pool. The other account has to grant the principal the
// statements of GrantLease too. The resource policy covers the table in this Region only.
func (p *Pool) GrantAccess(principal awsiam.IPrincipal) {
	if p.nodes.own == nil {
		p.nodes.problems.addf("GrantAccess: the table %s is imported, and its resource policy belongs to the stack that made it: call Pool(%q).GrantAccess there, "+
			"or add these statements to the policy: %s", p.nodes.imported.TableArn, p.props.Name, text(p.accessStatement(principalOf(principal))))
		return
	}
	if key := p.nodes.props.Key; key != nil {
		key.GrantEncryptDecrypt(principal)
	}
	for _, perm := range p.permissions() {
		p.nodes.own.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Principals: &[]awsiam.IPrincipal{principal},
			Actions:    jsii.Strings(perm.actions...),
			Resources:  jsii.Strings("*"), // the table, which cannot refer to itself
			Conditions: perm.forStatement(),
		}))
	}
}

// hasPolicy reports whether a grant to the role really added a policy. CDK reports success even if it dropped the grant because the role is of
// another account or must not be changed.
func hasPolicy(role awsiam.IRole) bool {
	for _, c := range *role.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if _, ok := c.(awsiam.CfnPolicy); ok {
			return true
		}
	}
	return false
}

// statements returns the statements of GrantLease, for people to copy.
func (p *Pool) statements(tables ...string) (all []any) {
	for _, perm := range p.permissions() {
		s := map[string]any{"Effect": "Allow", "Action": perm.actions, "Resource": tables}
		if len(perm.conditions) > 0 {
			s["Condition"] = perm.conditions
		}
		all = append(all, s)
	}
	return all
}

// keyStatements returns the statements of GrantLease on the table's keys, for people to copy.
func (n *NodePool) keyStatements() []any {
	var arns []string
	for _, arn := range n.keyARNs() {
		arns = append(arns, known(arn, "the ARN of the table's key"))
	}
	if arns == nil {
		return nil
	}
	return []any{map[string]any{"Effect": "Allow", "Action": keyActions, "Resource": arns}}
}

// known returns a value, or a placeholder if the value is known only after the deployment.
func known(value *string, placeholder string) string {
	if *awscdk.Token_IsUnresolved(value) {
		return placeholder
	}
	return *value
}

// accessStatement returns the statements that GrantAccess adds, for people to copy.
func (p *Pool) accessStatement(principal string) []any {
	statements := p.statements("*")
	for _, s := range statements {
		s.(map[string]any)["Principal"] = map[string]string{"AWS": principal}
	}
	return statements
}

// arnPatterns returns the table's ARNs with placeholders for the parts that are known only after the deployment.
func (p *Pool) arnPatterns() (arns []string) {
	if p.nodes.imported != nil {
		return p.nodes.imported.arns()
	}
	stack := awscdk.Stack_Of(p.nodes)
	table := p.nodes.props.TableName
	if table == "" {
		table = "TABLE"
	}
	for _, region := range append([]string{known(stack.Region(), "REGION")}, p.nodes.props.Replicas...) {
		arns = append(arns, fmt.Sprintf("arn:%s:dynamodb:%s:%s:table/%s", known(stack.Partition(), "aws"), region, known(stack.Account(), "ACCOUNT"), table))
	}
	return arns
}

// principalOf returns a name for a grantee, for messages and as a key. Different grantees have different names.
func principalOf(grantee awsiam.IGrantable) string {
	var names []string
	for _, values := range *grantee.GrantPrincipal().PolicyFragment().PrincipalJson() {
		for _, v := range *values {
			names = append(names, *v)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// allow grants a function's role the permissions that it needs.
func (n *NodePool) allow(name string, role awsiam.Role) {
	keys := leadingKeys(n.names()...)
	if name == bootstrap { // which adds each pool that it seeds to the table's index of pools
		(*keys)["dynamodb:LeadingKeys"] = append((*keys)["dynamodb:LeadingKeys"].([]string), protocol.PoolIndex)
	}
	if n.props.Key != nil {
		n.props.Key.GrantEncryptDecrypt(role)
	}
	role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions:    jsii.Strings(tableActions[name]...),
		Resources:  &[]*string{n.table.TableArn()},
		Conditions: &map[string]any{"ForAllValues:StringLike": keys},
	}))
	if name != poolmetric { // the others check the table and store the result, so that agents need not ask at each start
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings("dynamodb:DescribeTable"), Resources: &[]*string{n.table.TableArn()},
		}))
	}
	if name == poolmetric {
		// The function stores the number of holders that it counts. From this number, agents decide whether their leases grow.
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions:   jsii.Strings("dynamodb:UpdateItem"),
			Resources: &[]*string{n.table.TableArn()},
			Conditions: &map[string]any{
				"ForAllValues:StringEquals": map[string]any{"dynamodb:LeadingKeys": n.names(), "dynamodb:Attributes": []string{"pool_group", "node_id", "item_format", "measured"}},
				"Null":                      map[string]any{"dynamodb:Attributes": "false"},
			},
		}))
		// PutMetricData supports no resources; only its namespace can be restricted.
		role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions:    jsii.Strings("cloudwatch:PutMetricData"),
			Resources:  jsii.Strings("*"),
			Conditions: &map[string]any{"StringEquals": map[string]any{"cloudwatch:namespace": metricNamespace}},
		}))
	}
}

// leadingKeys returns a condition that restricts a statement to the partitions of these pools. The key of a pool's own item is the pool's name;
// all its other keys continue with a '#', which no pool's name can contain.
func leadingKeys(pools ...string) *map[string]any {
	var keys []string
	for _, pool := range pools {
		keys = append(keys, pool, pool+"#*")
	}
	return &map[string]any{"dynamodb:LeadingKeys": keys}
}
