package nodepool

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Attributes name a table and pools that another stack, app or repository owns.
type Attributes struct {
	// TableArn is the owning stack's output TableArn. If the table belongs to another account, that account has to give the roles access: see
	// Pool.GrantAccess.
	TableArn string

	// Pools are the names of the table's pools that are used here.
	Pools []string

	// Replicas are the other Regions of the table. Grants cover them too. Defaults to none.
	Replicas []string

	// Key is the key that encrypts the table, if the table has a key of its own. Defaults to the key that DynamoDB owns.
	Key awskms.IKey

	// ReplicaKeys are the table's keys in the Regions of Replicas, as in Props. With a Key, every Region needs one. Defaults to none.
	ReplicaKeys map[string]string

	// Architecture is the value that Pool.Architecture returns. Defaults to arm64.
	Architecture awslambda.Architecture
}

// FromAttributes imports a table with its pools, so that this app can grant its roles access to the pools and attach tasks to them. It creates no
// table, functions, alarms or dashboard, and seeds nothing. All of that belongs to the stack that owns the table, which must be deployed first.
// The pools' sizes and layouts are not known here, so that grants differ a little from the owner's (docs/deploy.md, Other stacks).
func FromAttributes(scope constructs.Construct, id string, attributes *Attributes) *NodePool {
	n := &NodePool{
		functions: map[string]awslambda.Function{}, pools: map[string]*Pool{}, seeds: map[string]awscdk.CustomResource{}, containers: map[string]string{},
		arch: awslambda.Architecture_ARM_64(), imported: &Attributes{},
	}
	constructs.NewConstruct_Override(n, scope, jsii.String(id))
	n.problems = watch(n)
	if attributes != nil {
		*n.imported = *attributes
	}
	a := n.imported
	if a.Architecture != nil {
		n.arch = a.Architecture
	}
	n.props.Key, n.props.Replicas, n.props.ReplicaKeys = a.Key, a.Replicas, a.ReplicaKeys
	n.problems.add(n.props.validateKeys())
	if len(a.Pools) == 0 {
		n.problems.addf("Pools is empty: name at least one pool of the table")
	}
	for _, name := range a.Pools {
		if err := leasepool.CheckName(name); err != nil {
			n.problems.addf("Pools: %w", err)
		}
		n.props.Pools = append(n.props.Pools, PoolProps{Name: name})
		n.pools[name] = &Pool{nodes: n, props: PoolProps{Name: name}, granted: map[string]bool{}}
	}
	if err := a.check(n.region()); err != nil {
		n.problems.add(err)
		a.TableArn = "arn:aws:dynamodb:us-east-1:111111111111:table/wrong" // for calls to work; it is never synthesized
	}
	n.table = awsdynamodb.TableV2_FromTableArn(n, jsii.String("Table"), jsii.String(a.TableArn))
	return n
}

// check refuses an ARN that a client in this Region cannot use. An ARN that is known only at deployment is not checked.
func (a *Attributes) check(region string) error {
	if *awscdk.Token_IsUnresolved(a.TableArn) {
		if len(a.Replicas) > 0 {
			return fmt.Errorf("Replicas are %v, but TableArn is known only at deployment: give the ARN as text", a.Replicas)
		}
		return nil
	}
	parts := strings.Split(a.TableArn, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "dynamodb" || parts[3] == "" || parts[4] == "" || !strings.HasPrefix(parts[5], "table/") || len(parts[5]) == len("table/") {
		return fmt.Errorf("TableArn is %q: give the owning stack's output TableArn, such as arn:aws:dynamodb:us-east-1:111111111111:table/NAME", a.TableArn)
	}
	if region != "" && region != parts[3] {
		return fmt.Errorf("TableArn is %q, and the stack's Region is %s: DynamoDB takes the ARN of a table in the client's own Region only; put the stack into %s, or give the ARN of a replica here",
			a.TableArn, region, parts[3])
	}
	return nil
}

// otherAccount reports whether the table is known to belong to a different account than the stack. If so, that account has to give each role access.
func (n *NodePool) otherAccount() bool {
	if n.imported == nil {
		return false
	}
	parts, own := strings.Split(n.imported.TableArn, ":"), awscdk.Stack_Of(n).Account()
	return len(parts) == 6 && !*awscdk.Token_IsUnresolved(own) && *own != parts[4]
}

// arns returns the table's ARNs, in this Region and in those of its replicas.
func (a *Attributes) arns() []string {
	arns := []string{a.TableArn}
	parts := strings.Split(a.TableArn, ":")
	for _, region := range a.Replicas {
		if len(parts) == 6 && region != parts[3] {
			arns = append(arns, strings.Join([]string{parts[0], parts[1], parts[2], region, parts[4], parts[5]}, ":"))
		}
	}
	return arns
}

// tableForTasks returns the value of NODELEASE_TABLE for tasks: the table's name, or, for an imported table, its ARN, since that table may be of
// another account.
func (n *NodePool) tableForTasks() *string {
	if n.imported != nil {
		return jsii.String(n.imported.TableArn)
	}
	return n.table.TableName()
}
