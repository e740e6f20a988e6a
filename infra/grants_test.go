package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const elsewhere = "arn:aws:iam::222222222222:role/app"

// A role that this app cannot change must not silently go without permissions: the synthesis fails, and the error contains all statements that the
// role needs.
func TestGrantThatCannotBeMade(t *testing.T) {
	stack := newStack(t, "us-east-1")
	key := awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(ownKey))
	pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Key = key })).Pool("orders")
	pool.GrantLease(awsiam.Role_FromRoleArn(stack, jsii.String("Other"), jsii.String(elsewhere), nil))
	frozen := awsiam.Role_FromRoleArn(stack, jsii.String("Frozen"), jsii.String("arn:aws:iam::111111111111:role/frozen"), &awsiam.FromRoleArnOptions{Mutable: jsii.Bool(false)})
	task := awsecs.NewFargateTaskDefinition(stack, jsii.String("Task"), &awsecs.FargateTaskDefinitionProps{TaskRole: frozen})
	addContainer(task, "app", 0)
	pool.Attach(task)
	wantRefused(t, stack, "pool orders cannot be granted to "+elsewhere, "cannot be granted to arn:aws:iam::111111111111:role/frozen",
		`"Resource":["arn:aws:dynamodb:us-east-1:111111111111:table/TABLE"]`, `{"dynamodb:LeadingKeys":["orders","orders#*"]}`, `"Action":["dynamodb:DescribeTable"]`, `"Resource":["`+ownKey+`"]`,
		"GrantedElsewhere", "GrantAccess", `"Principal":{"AWS":"`+elsewhere+`"}`)
}

func TestGrantedElsewhere(t *testing.T) {
	stack := newStack(t, "us-east-1")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	other := awsiam.Role_FromRoleArn(stack, jsii.String("Other"), jsii.String(elsewhere), nil)
	pool.GrantLease(other)
	pool.GrantedElsewhere(other)
	pool.GrantAccess(awsiam.NewArnPrincipal(jsii.String(elsewhere)))
	replica, _ := json.Marshal(template(t, stack).one(t, tableType).Properties["Replicas"])
	for _, want := range []string{"ResourcePolicy", elsewhere, `{"dynamodb:LeadingKeys":["orders","orders#*"]}`, "dynamodb:UpdateItem", "dynamodb:DescribeTable"} {
		if !strings.Contains(string(replica), want) {
			t.Errorf("the table's replica lacks %s: %s", want, replica)
		}
	}
}

// An imported role of the same account gets the grant like any other role.
func TestGrantToAnImportedRole(t *testing.T) {
	stack := newStack(t, "us-east-1")
	role := awsiam.Role_FromRoleArn(stack, jsii.String("Same"), jsii.String("arn:aws:iam::111111111111:role/app"), nil)
	nodepool.New(stack, "Nodes", orders(nil)).Pool("orders").GrantLease(role)
	for id, policy := range template(t, stack).all("AWS::IAM::Policy") {
		if text, _ := json.Marshal(policy.Properties); strings.HasPrefix(id, "Same") && strings.Contains(string(text), "dynamodb:UpdateItem") {
			return
		}
	}
	t.Error("the role has no policy")
}

// The outputs have the names that commands and policies need.
func TestOutputs(t *testing.T) {
	stack := newStack(t, "")
	twoPools(stack, nil)
	doc := template(t, stack)
	for key, want := range map[string]string{
		"NodesTableName": "NodesTable", "NodesTableArn": "NodesTable", "NodesBootstrapFunction": "Nodesbootstrap", "NodesReaperFunction": "Nodesreaper",
		"NodesPoolmetricFunction": "Nodespoolmetric", "NodesDashboard": "NodesDashboard", "NodesAlarmTopic": "NodesAlarms",
	} {
		if value, _ := json.Marshal(doc.Outputs[key].Value); !strings.Contains(string(value), want) {
			t.Errorf("the output %s is %s, want %s…", key, value, want)
		}
	}
	policies := 0
	for key, output := range doc.Outputs {
		if !strings.HasPrefix(key, "NodesPolicy") {
			continue
		}
		policies++
		for _, pool := range []string{"orders", "mail"} {
			value, _ := json.Marshal(output.Value)
			if strings.HasSuffix(output.Description, " "+pool) != strings.Contains(string(value), "Nodesagent"+pool) {
				t.Errorf("%s: %s is %s", key, output.Description, value)
			}
		}
	}
	if policies != 2 {
		t.Errorf("%d policies are output, want 2", policies)
	}
	for id, policy := range doc.all("AWS::IAM::ManagedPolicy") {
		pool := strings.TrimPrefix(strings.TrimRight(id, "0123456789ABCDEF"), "Nodesagent")
		got := strings.ReplaceAll(strings.Join(statements(t, policy), "\n"), pool, "mail")
		for _, want := range roles["Task"] {
			if !strings.Contains(got, want) {
				t.Errorf("%s grants\n%s\nwant %s", id, got, want)
			}
		}
	}
}
