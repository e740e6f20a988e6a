package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	eks "github.com/nodelease/nodelease/examples/eks/roles"
	"github.com/nodelease/nodelease/infra/nodepool"
)

// The files in docs/policies are the statements of the construct's roles as JSON, with placeholders for names. TestAgentOnTheSynthesizedTable
// compares the agent's statements with the calls that agents make. Rewrite the files with
//
//	go test ./infra -run PolicyFiles -update
func TestPolicyFiles(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].Name = "POOL" }))
	doc := template(t, stack)
	policies := map[string]any{"agent": doc.one(t, "AWS::IAM::ManagedPolicy").Properties["PolicyDocument"]}
	for _, policy := range doc.all("AWS::IAM::Policy") {
		policies[roleName(t, policy)] = policy.Properties["PolicyDocument"]
	}
	if len(policies) != 4 {
		t.Errorf("%d policies, want those of the agent and of three functions", len(policies))
	}
	for name, policy := range policies {
		text, err := json.MarshalIndent(inWords(t, policy), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		path, got := filepath.Join("..", "docs", "policies", name+".json"), string(text)+"\n"
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s differs from the synthesized policy (%v); accept the new one with: go test ./infra -run PolicyFiles -update", path, err)
		}
	}
}

// inWords replaces CloudFormation's references by words.
func inWords(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if attribute, ok := v["Fn::GetAtt"].([]any); ok {
			id := fmt.Sprint(attribute[0])
			for part, arn := range map[string]string{
				"NodesTable":  "arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE",
				"NodesFailed": "arn:aws:sqs:REGION:ACCOUNT:QUEUE",
				"log":         "arn:aws:logs:REGION:ACCOUNT:log-group:LOG_GROUP:*",
			} {
				if strings.Contains(id, part) {
					return arn
				}
			}
			t.Fatalf("no description of %v", v)
		}
		for key, child := range v {
			v[key] = inWords(t, child)
		}
	case []any:
		for i := range v {
			v[i] = inWords(t, v[i])
		}
	}
	return v
}

// Both roles of the EKS example may lease, and only the pods' service account may assume them.
func TestEKSExample(t *testing.T) {
	doc := template(t, eks.New(newApp(t, nil)))
	trust := ""
	for _, role := range doc.all("AWS::IAM::Role") {
		text, _ := json.Marshal(role.Properties["AssumeRolePolicyDocument"])
		trust += string(text)
	}
	for _, want := range []string{"sts:TagSession", "pods.eks.amazonaws.com", "sts:AssumeRoleWithWebIdentity", "system:serviceaccount:shop:orders"} {
		if !strings.Contains(trust, want) {
			t.Errorf("the trust lacks %s: %s", want, trust)
		}
	}
	if association := doc.one(t, "AWS::EKS::PodIdentityAssociation").Properties; association["ServiceAccount"] != "orders" || association["Namespace"] != "shop" {
		t.Errorf("the association is %v", association)
	}
	policies := doc.all("AWS::IAM::Policy")
	for id, policy := range policies {
		if text, _ := json.Marshal(policy.Properties); !strings.Contains(string(text), "dynamodb:UpdateItem") || !strings.Contains(string(text), `"orders#*"`) {
			t.Errorf("%s is %s", id, text)
		}
	}
	if len(policies) != 2 {
		t.Errorf("%d policies, want one for each role", len(policies))
	}
}
