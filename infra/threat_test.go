package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/internal/testkit/iampolicy"
)

// poolKinds are the kinds of pools, as the columns of docs/threat-model.md name them.
var poolKinds = []struct {
	column string
	pool   nodepool.PoolProps
}{
	{"with a layout", nodepool.PoolProps{Size: 1024, Layout: "default"}},
	{"no layout", nodepool.PoolProps{Size: 1024}},
	{"above 1,024", nodepool.PoolProps{Size: 2048, Layout: "wide16"}},
	{"narrow", nodepool.PoolProps{Size: 1024, Layout: "wide16", Narrow: true}},
}

// Each row of the page that is about the permissions of a task's role is compared with
// the synthesized policies, for each kind of pool.
func TestThreatModel(t *testing.T) {
	text, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	stack := newStack(t, "")
	props := orders(nil)
	props.Pools = nil
	for i, k := range poolKinds {
		k.pool.Name = fmt.Sprintf("pool%d", i)
		props.Pools = append(props.Pools, k.pool)
	}
	nodes := nodepool.New(stack, "Nodes", props)
	for i := range poolKinds {
		nodes.Pool(fmt.Sprintf("pool%d", i)).GrantLease(newTask(stack, fmt.Sprintf("Task%d", i)).TaskRole())
	}
	doc := template(t, stack)
	rows := tableAfter(t, string(text), "## What a task's role may do")
	if len(rows) < 20 {
		t.Fatalf("%d rows are read", len(rows))
	}
	code := regexp.MustCompile("`([^`]+)`")
	for i, k := range poolKinds {
		policy := policyOf(t, doc, fmt.Sprintf("Task%dTaskRole", i))
		for _, row := range rows {
			r := iampolicy.Request{Action: "dynamodb:" + strings.Trim(row[0], "`"), Resource: tableARN, Context: map[string][]string{}}
			named := func(cell string) (all []string) {
				for _, m := range code.FindAllStringSubmatch(cell, -1) {
					all = append(all, m[1])
				}
				return all
			}
			if keys := named(row[1]); len(keys) > 0 {
				for n, key := range keys {
					keys[n] = strings.NewReplacer("<pool>", fmt.Sprintf("pool%d", i), "<other>", fmt.Sprintf("pool%d", (i+1)%len(poolKinds))).Replace(key)
				}
				r.Context[iampolicy.LeadingKeys] = keys
			}
			if attributes := named(row[2]); len(attributes) > 0 {
				r.Context[iampolicy.Attributes] = append(attributes, "pool_group", "node_id")
			}
			want := row[3+i]
			if got := map[bool]string{true: "yes", false: "no"}[policy.Allows(r)]; got != want {
				t.Errorf("%s, %s of %s, %s: the page says %q, the policy %q", row[0], row[2], row[1], k.column, want, got)
			}
		}
	}
}

// The functions cannot do more than docs/iam.md lists either: no role may delete or
// overwrite items, and each is limited to the pools of its construct.
func TestFunctionsStayInTheirPools(t *testing.T) {
	stack := newStack(t, "")
	twoPools(stack, nil)
	doc := template(t, stack)
	for _, role := range []string{"bootstrap", "reaper", "poolmetric"} {
		policy := policyOf(t, doc, "Nodes"+role+"role")
		for _, test := range []struct {
			action, key string
			want        []string // the roles that have the permission
		}{
			{"GetItem", "orders#0", []string{"bootstrap", "reaper", "poolmetric"}},
			{"Query", "mail#reaper", []string{"bootstrap", "reaper", "poolmetric"}},
			{"UpdateItem", "orders", []string{"bootstrap", "reaper"}},
			{"UpdateItem", "orders#0", []string{"bootstrap", "reaper"}},
			{"UpdateItem", "#pools", []string{"bootstrap"}},
			{"UpdateItem", "other", nil}, {"UpdateItem", "orders2#0", nil}, {"GetItem", "other#0", nil},
			{"PutItem", "orders#0", nil}, {"DeleteItem", "orders#0", nil}, {"BatchWriteItem", "orders#0", nil}, {"Scan", "", nil}, {"DeleteTable", "", nil},
			{"UpdateTimeToLive", "", nil}, {"PartiQLUpdate", "orders#0", nil}, {"TransactWriteItems", "orders#0", nil},
		} {
			r := iampolicy.Request{Action: "dynamodb:" + test.action, Resource: tableARN, Context: map[string][]string{}}
			if test.key != "" {
				r.Context[iampolicy.LeadingKeys] = []string{test.key}
			}
			if got, want := policy.Allows(r), slices.Contains(test.want, role); got != want {
				t.Errorf("%s: %s of %q: allowed is %v, want %v", role, test.action, test.key, got, want)
			}
		}
	}
}

// A layout that the properties request reaches the seed. An impossible layout is refused.
func TestPoolLayout(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Layout = "wide16" }))
	if got := template(t, stack).one(t, "Custom::NodeleasePool").Properties["Layout"]; got != "wide16" {
		t.Errorf("got %v, want wide16", got)
	}
	for layout, want := range map[string]string{"wide": "layout wide: use default", "js53": "Size is 4096", "1/2/3": "Layout"} {
		stack := newStack(t, "")
		nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0] = nodepool.PoolProps{Name: "orders", Size: 4096, Layout: layout} }))
		wantRefused(t, stack, "Pools[0].Layout", want)
	}
}
