package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const (
	onOrders = ` if {"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["orders","orders#*"]}}`
	onMail   = ` if {"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["mail","mail#*"]}}`
	// A task may write all items except the reaper's memory and the hint cards, but of the
	// pool's own item only the attributes that an agent changes.
	onMailLeases = ` if {"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["mail#*"]},"ForAllValues:StringNotLike":{"dynamodb:LeadingKeys":["mail#reaper","mail#card#*"]}}`
	onMailItself = ` if {"ForAllValues:StringEquals":{"dynamodb:Attributes":["pool_group","node_id","item_format","revision","layout","layout_before","pool_size"],` +
		`"dynamodb:LeadingKeys":["mail"]},"Null":{"dynamodb:Attributes":"false"}}`
	onBoth  = ` if {"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["orders","orders#*","mail","mail#*"]}}`
	onCount = ` if {"ForAllValues:StringEquals":{"dynamodb:Attributes":["pool_group","node_id","item_format","measured"],"dynamodb:LeadingKeys":["orders","mail"]},"Null":{"dynamodb:Attributes":"false"}}`
	onIndex = ` if {"ForAllValues:StringLike":{"dynamodb:LeadingKeys":["orders","orders#*","mail","mail#*","#pools"]}}`
)

// roles lists everything that each role may do; nothing else is permitted. docs/iam.md has
// the reason for each permission.
var roles = map[string][]string{
	"bootstrap": {
		"dynamodb:DescribeTable on NodesTable",
		"dynamodb:GetItem on NodesTable" + onIndex,
		"dynamodb:Query on NodesTable" + onIndex,
		"dynamodb:UpdateItem on NodesTable" + onIndex,
		"logs:CreateLogStream on Nodesbootstraplog",
		"logs:PutLogEvents on Nodesbootstraplog",
	},
	"reaper": {
		"dynamodb:DescribeTable on NodesTable",
		"dynamodb:GetItem on NodesTable" + onBoth,
		"dynamodb:Query on NodesTable" + onBoth,
		"dynamodb:UpdateItem on NodesTable" + onBoth,
		"logs:CreateLogStream on Nodesreaperlog",
		"logs:PutLogEvents on Nodesreaperlog",
		"sqs:SendMessage on NodesFailed",
	},
	"poolmetric": {
		`cloudwatch:PutMetricData on * if {"StringEquals":{"cloudwatch:namespace":"Nodelease"}}`,
		"dynamodb:GetItem on NodesTable" + onBoth,
		"dynamodb:Query on NodesTable" + onBoth,
		"dynamodb:UpdateItem on NodesTable" + onCount,
		"logs:CreateLogStream on Nodespoolmetriclog",
		"logs:PutLogEvents on Nodespoolmetriclog",
		"sqs:SendMessage on NodesFailed",
	},
	"Task": {
		"dynamodb:DescribeTable on NodesTable",
		"dynamodb:GetItem on NodesTable" + onMail,
		"dynamodb:Query on NodesTable" + onMail,
		"dynamodb:UpdateItem on NodesTable" + onMailItself,
		"dynamodb:UpdateItem on NodesTable" + onMailLeases,
	},
}

func TestRoles(t *testing.T) {
	stack := newStack(t, "")
	nodes := twoPools(stack, nil)
	task := newTask(stack, "Task")
	addContainer(task, "app", 0)
	nodes.Pool("mail").Attach(task)

	got := map[string][]string{}
	doc := template(t, stack)
	for _, policy := range doc.all("AWS::IAM::Policy") {
		name := roleName(t, policy)
		got[name] = append(got[name], statements(t, policy)...)
	}
	for id, role := range doc.all("AWS::IAM::Role") {
		if role.Properties["ManagedPolicyArns"] != nil || role.Properties["Policies"] != nil {
			t.Errorf("%s has policies besides its own: %v", id, role.Properties)
		}
	}
	for name := range roles {
		slices.Sort(got[name])
		if !slices.Equal(got[name], roles[name]) {
			t.Errorf("%s may do\n\t%s\nwant\n\t%s", name, strings.Join(got[name], "\n\t"), strings.Join(roles[name], "\n\t"))
		}
	}
	if len(got) != len(roles) {
		t.Errorf("there are %d roles with policies, want %d", len(got), len(roles))
	}
}

// After the loss of a Region, a task continues in another one with the same role.
func TestGrantCoversReplicas(t *testing.T) {
	stack := newStack(t, "us-east-1")
	nodes := twoPools(stack, func(p *nodepool.Props) {
		p.Replicas, p.Consistency = []string{"us-east-2", "us-west-2"}, awsdynamodb.MultiRegionConsistency_STRONG
	})
	task := newTask(stack, "Task")
	nodes.Pool("orders").GrantLease(task.TaskRole())
	for _, policy := range template(t, stack).all("AWS::IAM::Policy") {
		text, _ := json.Marshal(policy.Properties["PolicyDocument"])
		covers := strings.Contains(string(text), "dynamodb:us-east-2:") && strings.Contains(string(text), "dynamodb:us-west-2:")
		if isTask := roleName(t, policy) == "Task"; covers != isTask {
			t.Errorf("%s: %s", roleName(t, policy), text)
		}
	}
}

func twoPools(stack awscdk.Stack, edit func(*nodepool.Props)) *nodepool.NodePool {
	return nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 300})
		if edit != nil {
			edit(p)
		}
	}))
}

// roleName returns the key in roles of the role that the policy is attached to.
func roleName(t *testing.T, policy resource) string {
	t.Helper()
	text, _ := json.Marshal(policy.Properties["Roles"])
	for name := range roles {
		if strings.Contains(string(text), "Nodes"+name+"role") || strings.Contains(string(text), name+"TaskRole") {
			return name
		}
	}
	t.Fatalf("unknown role: %s", text)
	return ""
}

// statements returns the statements of a policy, with one line for each action.
func statements(t *testing.T, policy resource) []string {
	t.Helper()
	var lines []string
	for _, s := range policy.Properties["PolicyDocument"].(map[string]any)["Statement"].([]any) {
		statement := s.(map[string]any)
		if statement["Effect"] != "Allow" || statement["NotAction"] != nil || statement["NotResource"] != nil {
			t.Errorf("an unusual statement: %v", statement)
		}
		suffix := " on " + strings.Join(names(statement["Resource"]), ", ")
		if condition := statement["Condition"]; condition != nil {
			text, _ := json.Marshal(condition)
			suffix += " if " + string(text)
		}
		for _, action := range list(statement["Action"]) {
			lines = append(lines, fmt.Sprint(action)+suffix)
		}
	}
	return lines
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// names returns the logical IDs, without their hashes, of a statement's resources.
func names(v any) (names []string) {
	for _, r := range list(v) {
		switch r := r.(type) {
		case string:
			names = append(names, r)
		case map[string]any:
			id := fmt.Sprint(list(r["Fn::GetAtt"])[0])
			names = append(names, id[:len(id)-8])
		}
	}
	return names
}

// docs/iam.md names every role with every action, and no action that the role lacks.
func TestIAMPage(t *testing.T) {
	text, err := os.ReadFile("../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range roles {
		heading := name
		if name == "Task" {
			heading = "agent"
		}
		var want, got []string
		for _, line := range lines {
			want = append(want, strings.Fields(line)[0])
		}
		for _, row := range tableAfter(t, string(text), "## "+heading) {
			if len(row) != 3 || len(row[2]) < 5 {
				t.Errorf("%s: %v has no reason", heading, row)
			}
			got = append(got, strings.Trim(row[0], "`"))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the page has %v, the role %v", heading, got, want)
		}
	}
}
