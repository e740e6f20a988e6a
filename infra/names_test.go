package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// If the context lists the deployed names, the synthesis refuses every other name without a new Floor, no matter whether a pool, the table, the
// construct or all of them were renamed.
func TestRenamedAtSynth(t *testing.T) {
	pools := func(names ...string) (all []nodepool.PoolProps) {
		for _, name := range names {
			all = append(all, nodepool.PoolProps{Name: name, Size: 16})
		}
		return all
	}
	deployed := func(path, table string, names ...any) map[string]any {
		return map[string]any{path: map[string]any{"table": table, "pools": names}}
	}
	later := pools("orders", "mail")
	later[1].Floor = time.Now().Add(-time.Minute)
	old := pools("orders") // the pool may have had this Floor before it was moved
	old[0].Floor = time.Now().Add(-31 * 24 * time.Hour)
	for name, tt := range map[string]struct {
		context any
		table   string
		pools   []nodepool.PoolProps
		want    []string // texts of the refusal; if there are none, nothing is refused
	}{
		"nothing is known":   {nil, "", pools("orders"), nil},
		"the same":           {deployed("Test/Nodes", "", "orders"), "", pools("orders"), nil},
		"the same, named":    {deployed("Test/Nodes", "ids", "orders"), "ids", pools("orders"), nil},
		"one removed":        {deployed("Test/Nodes", "", "orders", "mail"), "", pools("orders"), nil},
		"added with a Floor": {deployed("Test/Nodes", "", "orders"), "", later, nil},
		"added": {deployed("Test/Nodes", "", "orders"), "", pools("orders", "mail"),
			[]string{`pool "mail" of Test/Nodes`, `make the context value {"Test/Nodes":{"pools":["orders","mail"]}}`}},
		"renamed": {deployed("Test/Nodes", "", "orders"), "", pools("invoices"), []string{`pool "invoices"`, `with the pools ["orders"]`, "set Floor", "equal IDs"}},
		"another table": {deployed("Test/Nodes", "ids", "orders", "mail"), "ids2", pools("orders", "mail"),
			[]string{`pool "orders" of Test/Nodes, in the table "ids2"`, `pool "mail" of Test/Nodes`, `table "ids" with`}},
		"a name at last":          {deployed("Test/Nodes", "", "orders"), "ids", pools("orders"), []string{`in the table "ids"`, `table that CloudFormation names with`}},
		"all at once":             {deployed("Test/Nodes", "ids", "orders"), "ids2", pools("invoices"), []string{`pool "invoices"`}},
		"moved with an old Floor": {deployed("Test/Old", "", "orders"), "", old, []string{`pool "orders" of Test/Nodes`, "more than 30 days ago", "or is deployed already"}},
		"the same, an old Floor":  {deployed("Test/Nodes", "", "orders"), "", old, nil},
		"a construct moved":       {deployed("Test/Old", "", "orders"), "", pools("orders"), []string{`pool "orders" of Test/Nodes`}},
		"not an object":           {"orders", "", pools("orders"), []string{`nodelease:names is orders: give an object, here {"Test/Nodes":{"pools":["orders"]}}`}},
		"pools as text":           {map[string]any{"Test/Nodes": map[string]any{"pools": "orders"}}, "", pools("orders"), []string{"give an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			context := map[string]any{}
			if tt.context != nil {
				context["nodelease:names"] = tt.context
			}
			stack := awscdk.NewStack(newApp(t, context), jsii.String("Test"), &awscdk.StackProps{})
			nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools, p.TableName = tt.pools, tt.table }))
			if len(tt.want) > 0 {
				wantRefused(t, stack, tt.want...)
				return
			}
			warned := len(*assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("accepted because of its Floor, until .*make the context value")))) > 0
			if byFloor := name == "added with a Floor"; warned != byFloor {
				t.Errorf("got a warning that the name is not declared: %v, want %v", warned, byFloor)
			}
			if seeds := template(t, stack).all("Custom::NodeleasePool"); len(seeds) != len(tt.pools) {
				t.Errorf("%d pools are seeded, want %d", len(seeds), len(tt.pools))
			}
		})
	}
}

// The keys of outputs have only the letters and digits of an ID. If those are equal, the synthesis says so.
func TestOutputsOfEqualNames(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes-A", orders(nil))
	nodepool.New(stack, "NodesA", orders(nil))
	wantRefused(t, stack, "the outputs of Test/Nodes-A and of Test/NodesA", "give one of them another ID")
}

// A part of one pool and an alarm of another would have one ID.
func TestPoolsWithPartsOfOneID(t *testing.T) {
	var all []string // the kinds of a pool's alarms
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(nil))
	for _, c := range *stack.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if kind, ok := strings.CutPrefix(*c.Node().Id(), "orders-"); ok {
			all = append(all, kind)
		}
	}
	if !slices.Contains(all, "running-out") {
		t.Fatalf("got the alarms %q of a pool, want running-out among them", all)
	}
	for prefix, kinds := range map[string][]string{"seed": all, "agent": {"stuck"}, "Policy": {"no-data"}} {
		for _, kind := range kinds {
			stack := newStack(t, "")
			nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
				p.Pools = []nodepool.PoolProps{{Name: prefix, Size: 2}, {Name: kind, Size: 2}}
			}))
			wantRefused(t, stack, "would both have the ID "+prefix+"-"+kind, "rename one")
		}
	}
}

// Two tables of the same name clash, and so would their metrics. Tables in different Regions, or without names of their own, do not clash.
func TestTablesOfOneName(t *testing.T) {
	named := orders(func(p *nodepool.Props) { p.TableName = "ids" })
	at := func(app awscdk.App, id, region string) awscdk.Stack {
		return awscdk.NewStack(app, jsii.String(id), &awscdk.StackProps{Env: &awscdk.Environment{Region: jsii.String(region), Account: jsii.String("111111111111")}})
	}
	for name, tt := range map[string]struct {
		region string
		other  *nodepool.Props
		want   string
	}{
		"one name":       {"us-east-1", named, `TableName is "ids" in A/Nodes and in B/Nodes`},
		"another Region": {"us-east-2", named, ""},
		"another name":   {"us-east-1", orders(nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(t, nil)
			a, b := at(app, "A", "us-east-1"), at(app, "B", tt.region)
			nodepool.New(a, "Nodes", named)
			nodepool.New(b, "Nodes", tt.other)
			if tt.want != "" {
				wantRefused(t, a, tt.want)
				return
			}
			if got := refusal(a); got != "" {
				t.Errorf("refused: %s", got)
			}
		})
	}
}
