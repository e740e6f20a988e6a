package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const (
	ownARN   = "arn:aws:dynamodb:us-east-1:111111111111:table/leases"
	otherARN = "arn:aws:dynamodb:us-east-1:222222222222:table/leases"
)

// A stack that imports a pool can grant and attach, and makes no resource of its own for the pool.
func TestImport(t *testing.T) {
	stack := newStack(t, "us-east-1")
	nodes := nodepool.FromAttributes(stack, "Nodes", &nodepool.Attributes{TableArn: ownARN, Pools: []string{"orders"}, Replicas: []string{"us-east-2"}})
	task := newTask(stack, "Task")
	addContainer(task, "app", 0)
	nodes.Pool("orders").Attach(task)
	doc := template(t, stack)
	for id, r := range doc.Resources {
		if !strings.HasPrefix(id, "Task") {
			t.Errorf("there is a %s, %s", r.Type, id)
		}
	}
	policy, _ := json.Marshal(doc.one(t, "AWS::IAM::Policy").Properties)
	for _, want := range []string{ownARN, strings.Replace(ownARN, "us-east-1", "us-east-2", 1), `{"dynamodb:LeadingKeys":["orders","orders#*"]}`, "dynamodb:DescribeTable"} {
		if !strings.Contains(string(policy), want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	// docs/deploy.md describes this difference: the importing stack does not know the pool's size and layout.
	if text := string(policy); !strings.Contains(text, `"layout","layout_before","pool_size"`) || strings.Contains(text, "open_groups") || strings.Contains(text, "widen_") {
		t.Errorf("got the policy %s, want it to permit setting the layout, but not opening groups or widening", policy)
	}
	if env, _ := json.Marshal(doc.one(t, "AWS::ECS::TaskDefinition").Properties); !strings.Contains(string(env), `{"Name":"NODELEASE_TABLE","Value":"`+ownARN+`"}`) {
		t.Errorf("the task is %s", env)
	}
	if n := len(*assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_AnyValue())); n != 0 {
		t.Errorf("%d warnings for a table of the same account", n)
	}
}

// The account of an imported table has to give the roles access. A warning contains the statement for that.
func TestImportFromAnotherAccount(t *testing.T) {
	stack := newStack(t, "us-east-1")
	nodes := nodepool.FromAttributes(stack, "Nodes", &nodepool.Attributes{TableArn: otherARN, Pools: []string{"orders"}})
	nodes.Pool("orders").GrantLease(newTask(stack, "Task").TaskRole())
	warnings := *assertions.Annotations_FromStack(stack).FindWarning(jsii.String("*"), assertions.Match_StringLikeRegexp(jsii.String("is of another account")))
	if len(warnings) != 1 || !strings.Contains(warnings[0].Entry.Data.(string), `Pool("orders").GrantAccess`) {
		t.Errorf("%d warnings, want one that names GrantAccess", len(warnings))
	}
}

func TestWrongImport(t *testing.T) {
	for name, tt := range map[string]struct {
		attributes nodepool.Attributes
		want       []string
	}{
		"name":      {nodepool.Attributes{TableArn: "leases", Pools: []string{"orders"}}, []string{`TableArn is "leases"`, "output TableArn"}},
		"no pool":   {nodepool.Attributes{TableArn: ownARN}, []string{"Pools is empty"}},
		"bad pool":  {nodepool.Attributes{TableArn: ownARN, Pools: []string{"*"}}, []string{`pool name "*"`}},
		"region":    {nodepool.Attributes{TableArn: strings.Replace(ownARN, "us-east-1", "eu-west-1", 1), Pools: []string{"orders"}}, []string{"the stack's Region is us-east-1", "put the stack into eu-west-1"}},
		"key":       {nodepool.Attributes{TableArn: ownARN, Pools: []string{"orders"}, ReplicaKeys: map[string]string{"us-east-2": replicaKey}}, []string{"ReplicaKeys has a key of us-east-2", "Key too"}},
		"nothing":   {nodepool.Attributes{}, []string{`TableArn is ""`, "Pools is empty"}},
		"no such":   {nodepool.Attributes{TableArn: ownARN, Pools: []string{"mail"}}, []string{`Pool("orders"): there is no such pool`}},
		"access to": {nodepool.Attributes{TableArn: ownARN, Pools: []string{"orders"}}, []string{"GrantAccess: the table " + ownARN + " is imported", `"Principal":{"AWS":`}},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "us-east-1")
			nodes := nodepool.FromAttributes(stack, "Nodes", &tt.attributes)
			role := newTask(stack, "Task").TaskRole()
			nodes.Pool("orders").GrantLease(role)
			nodes.Pool("orders").GrantAccess(role.GrantPrincipal())
			wantRefused(t, stack, tt.want...)
		})
	}
}

// If a table has its own key, every role that leases may use the key.
func TestKey(t *testing.T) {
	stack := newStack(t, "us-east-1")
	key := awskms.NewKey(stack, jsii.String("Key"), nil)
	pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Key = key })).Pool("orders")
	pool.GrantLease(newTask(stack, "Task").TaskRole())
	doc := template(t, stack)
	if table, _ := json.Marshal(doc.one(t, tableType).Properties); !strings.Contains(string(table), `"SSEType":"KMS"`) || !strings.Contains(string(table), `"KMSMasterKeyId"`) {
		t.Errorf("the table is %s", table)
	}
	granted := 0
	for _, policy := range doc.all("AWS::IAM::Policy") {
		if text, _ := json.Marshal(policy.Properties); strings.Contains(string(text), "kms:Decrypt") {
			granted++
		}
	}
	if granted != 4 {
		t.Errorf("%d roles may use the key, want the task's and those of three functions", granted)
	}
}

const (
	ownKey     = "arn:aws:kms:us-east-1:111111111111:key/1c3f8a52-0000-4000-8000-000000000001"
	replicaKey = "arn:aws:kms:us-east-2:111111111111:key/1c3f8a52-0000-4000-8000-000000000002"
)

// A task that continues in a replica's Region has the same role, so the role may use the replica's key too. The same is true of the managed
// policy, and of an imported table.
func TestReplicaKey(t *testing.T) {
	stack := newStack(t, "us-east-1")
	key := awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(ownKey))
	keys := map[string]string{"us-east-2": replicaKey}
	own := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Replicas, p.Witness, p.Consistency, p.Key, p.ReplicaKeys = []string{"us-east-2"}, "us-west-2", strong, key, keys
	}))
	own.Pool("orders").GrantLease(newTask(stack, "Own").TaskRole())
	imported := nodepool.FromAttributes(stack, "Import", &nodepool.Attributes{TableArn: ownARN, Pools: []string{"orders"}, Replicas: []string{"us-east-2"}, Key: key, ReplicaKeys: keys})
	imported.Pool("orders").GrantLease(newTask(stack, "Other").TaskRole())
	doc := template(t, stack)
	policies := map[string]resource{}
	for _, all := range []map[string]resource{doc.policies("Own"), doc.policies("Other"), doc.all("AWS::IAM::ManagedPolicy")} {
		maps.Copy(policies, all)
	}
	if len(policies) != 3 {
		t.Errorf("got %d policies, want those of two roles and the managed one", len(policies))
	}
	for id, policy := range policies {
		used := map[string]bool{}
		for _, s := range policy.Properties["PolicyDocument"].(map[string]any)["Statement"].([]any) {
			text, _ := json.Marshal(s)
			for _, arn := range []string{ownKey, replicaKey} {
				if strings.Contains(string(text), arn) && strings.Contains(string(text), `["kms:Decrypt","kms:Encrypt","kms:ReEncrypt*","kms:GenerateDataKey*"]`) {
					used[arn] = true
				}
			}
		}
		if len(used) != 2 {
			t.Errorf("%s may use the keys %v, want that of the table and that of the replica", id, slices.Collect(maps.Keys(used)))
		}
	}
}

// AttachSidecar's container serves before the application starts, and stops after the application, which finds it
// in the variable that the clients read.
func TestAttachSidecar(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	task := newTask(stack, "Task")
	app := addContainer(task, "app", 0)
	pool.AttachSidecar(task, app, &nodepool.Sidecar{Image: awsecs.ContainerImage_FromRegistry(jsii.String("example.org/nodelease:1"), nil), Port: 7000})
	text := map[string]string{}
	for _, c := range template(t, stack).one(t, "AWS::ECS::TaskDefinition").Properties["ContainerDefinitions"].([]any) {
		b, _ := json.Marshal(c)
		text[c.(map[string]any)["Name"].(string)] = string(b)
	}
	for name, wants := range map[string][]string{
		"app": {`"DependsOn":[{"Condition":"HEALTHY","ContainerName":"nodelease"}]`, `{"Name":"NODELEASE_SIDECAR","Value":"http://127.0.0.1:7000"}`, `"StopTimeout":60`},
		"nodelease": {`"Command":["serve","--listen","127.0.0.1:7000"]`, `["CMD","/nodelease","serve","--healthcheck","--listen","127.0.0.1:7000"]`, `"Essential":true`,
			`"Memory":128`, `"ReadonlyRootFilesystem":true`, `"StopTimeout":60`, `{"Name":"NODELEASE_POOL","Value":"orders"}`, `"Name":"NODELEASE_TABLE"`},
	} {
		for _, want := range wants {
			if !strings.Contains(text[name], want) {
				t.Errorf("%s lacks %s: %s", name, want, text[name])
			}
		}
	}
	if strings.Contains(text["app"], "NODELEASE_TABLE") {
		t.Errorf("the application gets a table: %s", text["app"])
	}
	for _, client := range []string{"examples/python/nodelease.py", "examples/node/nodelease.mjs", "clients/python/src/nodelease/_core.py",
		"clients/javascript/src/index.js", "clients/java/core/src/main/java/dev/nodelease/Sidecar.java"} {
		source, err := os.ReadFile("../" + client)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "NODELEASE_SIDECAR") {
			t.Errorf("%s does not read NODELEASE_SIDECAR", client)
		}
	}
}

func TestWrongSidecar(t *testing.T) {
	stack := newStack(t, "")
	pool := nodepool.New(stack, "Nodes", orders(nil)).Pool("orders")
	bridge := awsecs.NewEc2TaskDefinition(stack, jsii.String("Task"), nil)
	app := bridge.AddContainer(jsii.String("app"), &awsecs.ContainerDefinitionOptions{
		Image: awsecs.ContainerImage_FromRegistry(jsii.String("scratch"), nil), MemoryLimitMiB: jsii.Number(64),
	})
	pool.AttachSidecar(bridge, app, &nodepool.Sidecar{Port: 70000, MemoryLimitMiB: 1})
	wantRefused(t, stack, "Image is missing", "Port is 70000: use 1 to 65535", "MemoryLimitMiB is 1", "network mode is BRIDGE", "use awsvpc")
}

// A second sidecar of a task is reported together with all other mistakes.
func TestTwoSidecarsOfATask(t *testing.T) {
	stack := newStack(t, "")
	nodes := nodepool.New(stack, "Nodes", orders(nil))
	task := newTask(stack, "Task")
	app := addContainer(task, "app", 0)
	props := &nodepool.Sidecar{Image: awsecs.ContainerImage_FromRegistry(jsii.String("example.org/nodelease:1"), nil)}
	first := nodes.Pool("orders").AttachSidecar(task, app, props)
	if second := nodes.Pool("orders").AttachSidecar(task, app, props); *second.Node().Path() != *first.Node().Path() {
		t.Errorf("got the container %s, want the first sidecar", *second.Node().Path())
	}
	nodes.Pool("order")
	wantRefused(t, stack, "AttachSidecar(Test/Task): the task has a container named nodelease already", `Pool("order")`)
}

// A sidecar cannot start with limits of growth below its own TTL, so the synthesis refuses them. The smallest limits are accepted.
func TestSidecarOfShortLimits(t *testing.T) {
	attach := func(ttl, reserve time.Duration) awscdk.Stack {
		stack := newStack(t, "")
		pool := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools[0].MaxTTL, p.Pools[0].MaxReserve = ttl, reserve })).Pool("orders")
		task := newTask(stack, "Task")
		pool.AttachSidecar(task, addContainer(task, "app", 0), &nodepool.Sidecar{Image: awsecs.ContainerImage_FromRegistry(jsii.String("example.org/nodelease:1"), nil)})
		return stack
	}
	wantRefused(t, attach(5*time.Second, 10*time.Second), "AttachSidecar(Test/Task)", "TTL of 15s", "MaxTTL 5s: use TTL = 15s", "MaxReserve 10s is below TTL + ClaimGuard = 16s")
	template(t, attach(15*time.Second, 16*time.Second))
}

// The construct's sets of Regions equal those of DynamoDB's API reference, which the SDK's comments contain.
func TestStrongRegionsAreTheSDKs(t *testing.T) {
	dir := goCommand(t, "..", nil, "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/dynamodb")
	source, err := os.ReadFile(dir + "/types/types.go")
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`[\s/]+`).ReplaceAllString(string(source), " ")
	for _, set := range []string{
		"US Region set: US East (N. Virginia), US East (Ohio), US West (Oregon) -",
		"EU Region set: Europe (Ireland), Europe (London), Europe (Paris), Europe (Frankfurt) -",
		"AP Region set: Asia Pacific (Tokyo), Asia Pacific (Seoul), Asia Pacific (Osaka) This",
	} {
		if !strings.Contains(page, set) {
			t.Errorf("the SDK no longer lists %q: compare strongSets in infra/nodepool/validate.go with its comment on CreateGlobalTableWitnessGroupMemberAction", set)
		}
	}
}
