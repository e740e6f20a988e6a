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
	own       awsdynamodb.TableV2 // the same, unless it is imported
	imported  *Attributes
	functions map[string]awslambda.Function
	topic     awssns.ITopic
	dashboard awscloudwatch.Dashboard
	pools     map[string]*Pool
	seeds     map[string]awscdk.CustomResource // by the pool's name

	containers map[string]string // path of an attached container to its pool's name
}

// Pool is one pool of a NodePool, for tasks.
type Pool struct {
	nodes *NodePool
	props PoolProps
	tasks []awsecs.TaskDefinition

	granted map[string]bool // principals that already have the permissions of GrantLease
}

// New builds the table, seeds its pools and sets up reaping, measuring, alarms and a dashboard. Wrong properties are all reported together
// when the app is synthesized; until then New returns a NodePool on which every call works, so that other mistakes show at the same time.
func New(scope constructs.Construct, id string, props *Props) *NodePool {
	n := &NodePool{
		functions: map[string]awslambda.Function{},
		pools:     map[string]*Pool{},
		seeds:     map[string]awscdk.CustomResource{},

		containers: map[string]string{},
	}
	// The Override form makes this Go value the construct; what NewConstruct returns could be embedded, but not
	// be found as this value again.
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
	if n.problems.any() {
		// A plain table and a topic are enough for grants, attachments and subscriptions to be made and checked; they are never synthesized.
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

// Pool returns the pool of that name, to be granted or attached. A name that is not in Props.Pools is reported when the app is synthesized.
func (n *NodePool) Pool(name string) *Pool {
	p, ok := n.pools[name]
	if !ok {
		n.problems.addf("Pool(%q): there is no such pool; add it to Props.Pools or use one of %v", name, n.names())
		return &Pool{nodes: n, props: PoolProps{Name: name}, granted: map[string]bool{}}
	}
	return p
}

// Table is the DynamoDB table, for grants of your own. Give nobody PutItem, DeleteItem or BatchWriteItem on it: only conditional updates
// keep its promises.
func (n *NodePool) Table() awsdynamodb.ITableV2 { return n.table }

// Architecture of the functions, shared by tasks that are built with them.
func (p *Pool) Architecture() awslambda.Architecture { return p.nodes.arch }

// AlarmTopic is where all alarms of this construct go; subscribe people or a queue to it.
func (n *NodePool) AlarmTopic() awssns.ITopic { return n.topic }

// Seeded is the dependency of a function, or of anything else that leases from the pool when the stack is deployed. Attach does so for
// tasks:
//
//	function.Node().AddDependency(nodes.Pool("orders").Seeded())
func (p *Pool) Seeded() constructs.IDependable {
	if seed, ok := p.nodes.seeds[p.props.Name]; ok {
		return seed
	}
	return p.nodes // an imported pool was seeded elsewhere; or there are problems, and nothing will be synthesized
}

func (n *NodePool) names() []string { return n.props.names() }

func (p Props) names() []string {
	names := make([]string, 0, len(p.Pools))
	for _, pool := range p.Pools {
		names = append(names, pool.Name)
	}
	return names
}

// region is the stack's Region, or empty where the stack is not tied to one.
func (n *NodePool) region() string {
	region := awscdk.Stack_Of(n).Region()
	if *awscdk.Token_IsUnresolved(region) {
		return ""
	}
	return *region
}
