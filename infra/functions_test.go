package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/infra/nodepool"
)

func TestFunctions(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 300, ExcludeBelow: 16})
		p.Every = 5 * time.Minute
	}))
	doc := template(t, stack)
	functions := doc.all("AWS::Lambda::Function")
	if len(functions) != 3 {
		t.Fatalf("there are %d functions", len(functions))
	}
	for id, f := range functions {
		p := f.Properties
		if depends := strings.Join(f.DependsOn, " "); !strings.Contains(depends, "DefaultPolicy") {
			t.Errorf("%s may run before it has permissions: it depends on %s", id, depends)
		}
		if p["Runtime"] != "provided.al2023" || p["Handler"] != "bootstrap" || p["Timeout"] == nil || p["LoggingConfig"] == nil {
			t.Errorf("%s: %v", id, p)
		}
		env := p["Environment"].(map[string]any)["Variables"].(map[string]any)
		if env["NODELEASE_TABLE"] == nil {
			t.Errorf("%s does not get the table", id)
		}
		pools, ok := env["NODELEASE_POOLS"].(string)
		isBootstrap := strings.Contains(id, "bootstrap")
		if !ok || (p["DeadLetterConfig"] != nil) == isBootstrap {
			t.Errorf("%s: pools %q, dead letters %v", id, pools, p["DeadLetterConfig"])
		}
		if want := `[{"pool":"orders","size":1024,"excludeBelow":0},{"pool":"mail","size":300,"excludeBelow":16}]`; pools != want {
			t.Errorf("%s: pools are %s, want %s", id, pools, want)
		}
	}
	for id, l := range doc.all("AWS::Logs::LogGroup") {
		if l.Properties["RetentionInDays"] != 30.0 {
			t.Errorf("%s keeps logs %v days", id, l.Properties["RetentionInDays"])
		}
	}
	rules := doc.all("AWS::Events::Rule")
	if len(rules) != 2 {
		t.Errorf("there are %d schedules", len(rules))
	}
	for id, r := range rules {
		target := r.Properties["Targets"].([]any)[0].(map[string]any)
		if r.Properties["ScheduleExpression"] != "rate(5 minutes)" || r.Properties["State"] != "ENABLED" ||
			target["RetryPolicy"] == nil || target["DeadLetterConfig"] == nil {
			t.Errorf("%s: %v", id, r.Properties)
		}
	}
}

func TestSeeding(t *testing.T) {
	floor := time.Date(2030, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 300, ExcludeBelow: 16, Floor: floor, Narrow: true, Expect: 200})
	}))
	seeds := template(t, stack).all("Custom::NodeleasePool")
	want := map[string]map[string]any{
		"orders": {"Pool": "orders", "Size": "1024", "ExcludeBelow": "0"},
		"mail":   {"Pool": "mail", "Size": "300", "ExcludeBelow": "16", "Floor": fmt.Sprint(floor.UnixMilli()), "Narrow": "true", "Expect": "200"},
	}
	if len(seeds) != len(want) {
		t.Fatalf("%d pools are seeded", len(seeds))
	}
	for id, s := range seeds {
		p := s.Properties
		token, _ := json.Marshal(p["ServiceToken"])
		if !strings.Contains(string(token), "Nodesbootstrap") || p["ServiceTimeout"] != "900" {
			t.Errorf("%s: token %s, time-out %v", id, token, p["ServiceTimeout"])
		}
		delete(p, "ServiceToken")
		delete(p, "ServiceTimeout")
		if table, _ := json.Marshal(p["Table"]); !strings.Contains(string(table), `{"Ref":"NodesTable`) {
			t.Errorf("%s: the table is %s, want the construct's, so that no other is seeded unnoticed", id, table)
		}
		delete(p, "Table")
		if !reflect.DeepEqual(p, want[p["Pool"].(string)]) {
			t.Errorf("%s: %v", id, p)
		}
	}
}

// Local runs build the functions for the host's architecture. If anything else differed, they would not test the stack that is deployed.
func TestArchitectureIsAllThatDiffers(t *testing.T) {
	for _, stack := range []string{"Nodelease", "NodeleaseService"} {
		render := func(arch string) string {
			text, err := json.MarshalIndent(template(t, stackOf(sample(t, map[string]any{"arch": arch}), stack)), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		arm, amd := render("arm64"), render("amd64")
		if !strings.Contains(strings.ToLower(arm), "arm64") {
			t.Errorf("%s does not say arm64", stack)
		}
		armLines, amdLines := strings.Split(arm, "\n"), strings.Split(amd, "\n")
		if len(armLines) != len(amdLines) {
			t.Fatalf("%s: %d lines and %d", stack, len(armLines), len(amdLines))
		}
		for i := range armLines {
			a, b := armLines[i], amdLines[i]
			same := a == b || strings.EqualFold(strings.ReplaceAll(a, "arm64", "x86_64"), b) || strings.EqualFold(strings.ReplaceAll(a, "ARM64", "X86_64"), b)
			if !same && !hash.MatchString(a) { // the image's platform is part of its hash
				t.Errorf("%s differs in\n%s\n%s", stack, a, b)
			}
		}
	}
}

func TestArchitectures(t *testing.T) {
	for context, want := range map[string]string{"": "arm64", "arm64": "arm64", "amd64": "x86_64", "x86_64": "x86_64"} {
		for id, f := range template(t, stackOf(sample(t, map[string]any{"arch": context}), "Nodelease")).all("AWS::Lambda::Function") {
			if got := f.Properties["Architectures"].([]any)[0]; got != want {
				t.Errorf("arch %q: %s is %v", context, id, got)
			}
		}
	}
}
