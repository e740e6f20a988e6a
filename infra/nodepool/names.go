package nodepool

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// namesContext is the key of the context value that lists the deployed names by the path of the NodePool:
// {"Nodelease/Nodes": {"pools": ["orders"]}}.
const namesContext = "nodelease:names"

// deployed contains the names with which one NodePool has been deployed.
type deployed struct {
	Table string   `json:"table,omitempty"`
	Pools []string `json:"pools"`
}

// oldFloor is the age from which a Floor no longer satisfies checkNames, as for the bootstrap function.
const oldFloor = 30 * 24 * time.Hour

// checkNames refuses names that the context value does not list as deployed. A renamed
// table or pool is a new ID space. If it were seeded at the present time, it would assign
// milliseconds that processes of the old pool still have reserved. A pool with a new Floor
// begins after those milliseconds, so it is accepted. A template contains nothing about the
// template before it. So without the context value only the bootstrap function notices a
// rename, and nothing notices if the table and all of its pools are renamed at once.
func (n *NodePool) checkNames() {
	value := n.Node().TryGetContext(jsii.String(namesContext))
	if value == nil {
		return
	}
	path, all := *n.Node().Path(), map[string]deployed{}
	want := text(map[string]deployed{path: {Table: n.props.TableName, Pools: n.names()}})
	if raw, err := json.Marshal(value); err != nil || json.Unmarshal(raw, &all) != nil {
		n.problems.addf("the context value %s is %v: give an object, here %s", namesContext, value, want)
		return
	}
	was := all[path]
	for _, p := range n.props.Pools {
		if slices.Contains(was.Pools, p.Name) && was.Table == n.props.TableName {
			continue
		}
		// Invariant (S1): an old Floor does not count. The pool may have had it under its old name already.
		if p.Floor.After(time.Now().Add(-oldFloor)) {
			// Invariant: no app that has been deployed is refused later without a warning.
			awscdk.Annotations_Of(n).AddWarningV2(jsii.String("nodelease:names:"+p.Name), jsii.String(fmt.Sprintf(
				"pool %q of %s is not among the names of the context value %s, and is accepted because of its Floor, until %s. When it is deployed, make the context value %s",
				p.Name, path, namesContext, p.Floor.Add(oldFloor).UTC().Format(time.RFC3339), want)))
			continue
		}
		n.problems.addf("pool %q of %s, in the table %s, is not among the names that are deployed, which the context value %s has: table %s with the pools %q. "+
			"In the place of another pool or table it is a new ID space: processes of the old one go on for as long as they have milliseconds reserved, and a pool seeded now would give those out again, "+
			"as equal IDs. Keep the names; or stop the old fleet and set Floor to a time after its last ID. A Floor of more than %d days ago does not count, since the pool may have had it under its old name. "+
			"If it takes no other's place, or is deployed already, make the context value %s",
			p.Name, path, quoted(n.props.TableName), namesContext, quoted(was.Table), was.Pools, oldFloor/(24*time.Hour), want)
	}
}

// quoted returns how a message names the table.
func quoted(table string) string {
	if table == "" {
		return "that CloudFormation names"
	}
	return strconv.Quote(table)
}

// checkTable refuses two tables with the same name in one account and Region, as far as those are known when the app is synthesized. The tables
// would clash in the middle of a deployment, and would share their metrics and alarms.
func (n *NodePool) checkTable() error {
	name, stack := n.props.TableName, awscdk.Stack_Of(n)
	if name == "" {
		return nil
	}
	for _, c := range *n.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		other, ok := c.(*NodePool)
		if !ok || other == n || other.imported != nil || other.props.TableName != name {
			continue
		}
		if s := awscdk.Stack_Of(other); *s.Account() == *stack.Account() && *s.Region() == *stack.Region() {
			return fmt.Errorf("TableName is %q in %s and in %s, of one account and Region, where metrics and alarms would be those of both: give each a name of its own, or leave it out",
				name, *n.Node().Path(), *other.Node().Path())
		}
	}
	return nil
}
