package nodepool

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// NodePool is the table with its pools and everything that looks after them.
type NodePool struct {
	constructs.Construct

	props     Props
	problems  *problems
	arch      awslambda.Architecture
	table     awsdynamodb.ITableV2
	own       awsdynamodb.TableV2 // the same table, or nil if it is imported
	imported  *Attributes
	functions map[string]awslambda.Function
	topic     awssns.ITopic
	dashboard awscloudwatch.Dashboard
	pools     map[string]*Pool
	seeds     map[string]awscdk.CustomResource // by the pool's name

	containers map[string]string // from the path of an attached container to the name of its pool
}

// Pool is one pool of a NodePool, for tasks.
type Pool struct {
	nodes   *NodePool
	props   PoolProps
	holders []awsecs.ContainerDefinition // the attached containers: each holds a node ID in each task that runs it

	granted map[string]bool // principals that already have the permissions of GrantLease
}

// New builds the table, seeds its pools and sets up reaping, measuring, alarms and a dashboard. Wrong properties are all reported together
// when the app is synthesized. New returns a NodePool on which every call works even then, so that other mistakes are reported with them.
func New(scope constructs.Construct, id string, props *Props) *NodePool {
	n := &NodePool{
		functions: map[string]awslambda.Function{},
		pools:     map[string]*Pool{},
		seeds:     map[string]awscdk.CustomResource{},

		containers: map[string]string{},
	}
	// The Override form makes this Go value itself the construct. The result of NewConstruct could be embedded
	// instead, but a search of the tree would then not find this value.
	constructs.NewConstruct_Override(n, scope, jsii.String(id))
	n.problems = watch(n)
	if props != nil {
		n.props = *props
	}
	n.props = n.props.withDefaults()
	for _, p := range n.props.Pools {
		n.pools[p.Name] = &Pool{nodes: n, props: p, granted: map[string]bool{}}
	}

	n.problems.add(n.setArchitecture())
	n.problems.add(n.props.validate(n.region()))
	n.problems.add(n.props.validateZips(n.arch))
	n.checkNames()
	n.problems.addLater(n.checkTable)
	n.problems.addLater(n.checkOutputs)
	if n.problems.any() {
		// With a plain table and a topic, grants, attachments and subscriptions can still be made and checked. Neither is ever synthesized.
		n.props.Replicas, n.props.Witness, n.props.Consistency = nil, "", ""
		n.props.Key, n.props.ReplicaKeys = nil, nil
		n.own, n.topic = n.newTable(), n.newTopic()
		n.table = n.own
		return n
	}

	n.own = n.newTable()
	n.table = n.own
	n.topic = n.newTopic()
	queue := n.newQueue()
	for _, name := range functionNames {
		n.functions[name] = n.newFunction(name, queue)
	}
	n.schedule(reaper, queue)
	n.schedule(poolmetric, queue)
	for _, p := range n.props.Pools {
		n.seeds[p.Name] = n.seed(p)
	}
	n.addAlarms(queue)
	n.addDashboard()
	n.addOutputs()
	n.problems.addLater(n.sizePools)
	return n
}

// Pool returns the named pool, for grants and attachments. A name that is not in Props.Pools is reported when the app is synthesized.
func (n *NodePool) Pool(name string) *Pool {
	p, ok := n.pools[name]
	if !ok {
		n.problems.addf("Pool(%q): there is no such pool; add it to Props.Pools or use one of %v", name, n.names())
		return &Pool{nodes: n, props: PoolProps{Name: name}, granted: map[string]bool{}}
	}
	return p
}

// Table returns the DynamoDB table, for grants of your own. Never grant PutItem, DeleteItem or BatchWriteItem on it: leases are safe only as
// long as every write is a conditional update.
func (n *NodePool) Table() awsdynamodb.ITableV2 { return n.table }

// Architecture returns the architecture of the functions, for tasks that are built together with them.
func (p *Pool) Architecture() awslambda.Architecture { return p.nodes.arch }

// AlarmTopic returns the topic to which all alarms of this construct are sent. Subscribe people or a queue to it.
func (n *NodePool) AlarmTopic() awssns.ITopic { return n.topic }

// Seeded returns a dependency that is met once the pool is seeded. Attach and AttachFunction add it by themselves; add it to anything else
// that leases from the pool while the stack is deployed:
//
//	function.Node().AddDependency(nodes.Pool("orders").Seeded())
func (p *Pool) Seeded() constructs.IDependable {
	if seed, ok := p.nodes.seeds[p.props.Name]; ok {
		return seed
	}
	return p.nodes // the pool is imported and was seeded elsewhere, or there are problems and nothing will be synthesized
}

func (n *NodePool) names() []string { return n.props.names() }

func (p Props) names() []string {
	names := make([]string, 0, len(p.Pools))
	for _, pool := range p.Pools {
		names = append(names, pool.Name)
	}
	return names
}

// region returns the stack's Region, or an empty string if the stack is not tied to a Region.
func (n *NodePool) region() string {
	region := awscdk.Stack_Of(n).Region()
	if *awscdk.Token_IsUnresolved(region) {
		return ""
	}
	return *region
}
