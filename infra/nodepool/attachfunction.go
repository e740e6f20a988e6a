package nodepool

import (
	"fmt"
	"math"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// FunctionUse describes how a function uses the pool, for the check of the pool's size.
type FunctionUse struct {
	// Concurrency is the largest number of environments at once. Defaults to the function's reserved concurrency or, if it has none, to 1,000,
	// the default of an AWS account.
	Concurrency float64
	// TTL is lease.Config.TTL in seconds. Defaults to 300.
	TTL float64
	// ShortestLife is the shortest time, in seconds, that an environment is expected to live. Defaults to 300.
	ShortestLife float64
}

const (
	accountConcurrency = 1000
	onDemandTTL        = 300
	shortestLife       = 300
)

// AttachFunction lets the environments of a Lambda function lease from this pool, on demand. The function's role gets the permissions of
// GrantLease. The function gets NODELEASE_TABLE and NODELEASE_POOL, with which leaselambda.Wrap needs no configuration. CloudFormation creates
// the function after the pool has been seeded.
//
// The synthesis warns if the pool has fewer node IDs than concurrency × (2 + TTL ÷ shortest life): a new version of the function replaces all
// environments at once, and environments that ended hold their node IDs until their leases expire.
func (p *Pool) AttachFunction(fn awslambda.Function, use ...FunctionUse) {
	n := p.nodes
	path := *fn.Node().Path()
	if other, ok := n.containers[path]; ok {
		n.problems.addf("AttachFunction: function %s is attached to pool %s and to pool %s, but its environment names one: keep one AttachFunction, "+
			"give the function GrantLease on the other pool and name that one in lease.Config.Pool", path, other, p.props.Name)
		return
	}
	u := FunctionUse{TTL: onDemandTTL, ShortestLife: shortestLife}
	if len(use) > 0 {
		u = use[0]
		u.TTL, u.ShortestLife = orElse(u.TTL, onDemandTTL), orElse(u.ShortestLife, shortestLife)
	}
	for name, value := range map[string]float64{"Concurrency": u.Concurrency, "TTL": u.TTL, "ShortestLife": u.ShortestLife} {
		if !(value >= 0) || math.IsInf(value, 0) {
			n.problems.addf("AttachFunction(%s): %s is %v: use a number above 0, or leave it out", path, name, value)
			return
		}
	}
	p.GrantLease(fn)
	if seed, ok := n.seeds[p.props.Name]; ok {
		fn.Node().DefaultChild().Node().AddDependency(seed)
	}
	n.containers[path] = p.props.Name
	fn.AddEnvironment(jsii.String("NODELEASE_TABLE"), n.tableForTasks(), nil)
	fn.AddEnvironment(jsii.String("NODELEASE_POOL"), jsii.String(p.props.Name), nil)
	n.problems.addLater(func() error { p.checkFunction(fn, u); return nil })
}

func orElse(value, fallback float64) float64 {
	if value == 0 {
		return fallback
	}
	return value
}

// checkFunction warns of a pool that is too small for the function.
func (p *Pool) checkFunction(fn awslambda.Function, u FunctionUse) {
	if p.props.Size == 0 { // the pool is imported, so its size is not known
		return
	}
	concurrency := u.Concurrency
	if concurrency == 0 {
		concurrency = accountConcurrency
		if resource, ok := fn.Node().DefaultChild().(awslambda.CfnFunction); ok && resource.ReservedConcurrentExecutions() != nil {
			concurrency = *resource.ReservedConcurrentExecutions()
		}
	}
	need := math.Ceil(concurrency * (2 + u.TTL/u.ShortestLife))
	if need <= float64(p.props.usable()) {
		return
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	awscdk.Annotations_Of(p.nodes).AddWarningV2(jsii.String("nodelease:pool-too-small-for-function:"+p.props.Name+":"+*fn.Node().Id()), jsii.String(fmt.Sprintf(
		"pool %s has %d usable node IDs, but function %s may hold %s at once: %s environments × (2 + a TTL of %s s ÷ a shortest life of %s s): raise Size to %s or more, "+
			"reserve less concurrency for the function, or lower lease.Config.TTL and say so in FunctionUse",
		p.props.Name, p.props.usable(), *fn.Node().Path(), number(need), number(concurrency), number(u.TTL), number(u.ShortestLife), number(need+float64(p.props.ExcludeBelow)))))
}
