package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

func lambdaFunction(stack awscdk.Stack, reserved *float64) awslambda.Function {
	return awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_22_X(), Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String("exports.handler = async () => {}")),
		ReservedConcurrentExecutions: reserved,
	})
}

// A function gets its environment and its grants, and is created after the pool is seeded.
func TestAttachFunction(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	pool.AttachFunction(lambdaFunction(stack, jsii.Number(10)))
	found := false
	for _, r := range template(t, stack).Resources {
		env, _ := json.Marshal(r.Properties["Environment"])
		if r.Type != "AWS::Lambda::Function" || !strings.Contains(string(env), `"NODELEASE_POOL":"orders"`) {
			continue
		}
		found = true
		if !strings.Contains(string(env), `"NODELEASE_TABLE":{"Ref":"NodesTable`) {
			t.Errorf("the environment is %s", env)
		}
	}
	if !found {
		t.Error("no function has NODELEASE_POOL")
	}
	assertions.Annotations_FromStack(stack).HasNoWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("for-function|may hold")))
}

// The pool's size is compared with the function's concurrency.
func TestAttachFunctionChecksTheSize(t *testing.T) {
	for name, c := range map[string]struct {
		reserved *float64
		use      []nodepool.FunctionUse
		need     string // "" if the pool has enough node IDs
	}{
		"the account's concurrency": {nil, nil, "may hold 3000 at once: 1000 environments"},
		"reserved":                  {jsii.Number(400), nil, "may hold 1200 at once: 400 environments"},
		"enough":                    {jsii.Number(300), nil, ""},
		"short lives":               {jsii.Number(300), []nodepool.FunctionUse{{ShortestLife: 30}}, "may hold 3600 at once"},
		"a short TTL":               {nil, []nodepool.FunctionUse{{Concurrency: 400, TTL: 60}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "")
			pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
			pool.AttachFunction(lambdaFunction(stack, c.reserved), c.use...)
			all := assertions.Annotations_FromStack(stack)
			if c.need == "" {
				all.HasNoWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("may hold")))
				return
			}
			all.HasWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String(c.need+".*raise Size")))
		})
	}
}

// The size of an imported pool is not known, so there is no warning of it.
func TestAttachFunctionToAnImportedPool(t *testing.T) {
	stack := newStack(t, "us-east-1")
	nodes := nodepool.FromAttributes(stack, "Nodes", &nodepool.Attributes{TableArn: ownARN, Pools: []string{"orders"}})
	nodes.Pool("orders").AttachFunction(lambdaFunction(stack, jsii.Number(1)))
	for _, w := range *assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_AnyValue()) {
		t.Errorf("the warning is %v, want none", w.Entry.Data)
	}
}

// Implausible settings are refused, and the error names the remedy.
func TestAttachFunctionProblems(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	fn := lambdaFunction(stack, jsii.Number(1))
	pool.AttachFunction(fn, nodepool.FunctionUse{TTL: -1})
	pool.AttachFunction(fn, nodepool.FunctionUse{ShortestLife: math.Inf(1)})
	pool.AttachFunction(fn)
	pool.AttachFunction(fn)
	wantRefused(t, stack, "TTL is -1", "ShortestLife is +Inf", "keep one AttachFunction")
}
