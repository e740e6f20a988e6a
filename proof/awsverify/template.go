package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type object = map[string]any

// Names of the resources that a run adds to the plain template.
const (
	stackPrefix = "nodelease-verify-"
	zipsSuffix  = "-zips"
	taskRole    = "VerifyTask"
	queue       = "VerifyQueue"

	clocksFunction = "VerifyClocks"
	poolName       = "verify"
	poolSize       = 2
	grownSize      = 3
)

// functions are the names of the zips that the template needs.
var functions = []string{"bootstrap", "reaper", "poolmetric"}

// template is the plain template, with the additions of a throw-away run.
type template struct {
	dir     string
	body    string // of the pool's stack
	counts  map[string]int
	alarmed int // how many metrics the alarms watch, for the price
}

// zipsStack returns the template of the stack with the bucket for the functions' zips.
func zipsStack(run string) string {
	text, _ := json.Marshal(object{"Resources": object{"Zips": object{ // cannot fail: the value contains only strings, booleans and maps
		"Type": "AWS::S3::Bucket", "DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete",
		"Properties": object{
			"Tags":                           tagsOf(run),
			"PublicAccessBlockConfiguration": object{"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true},
		},
	}}, "Outputs": object{"Bucket": object{"Value": object{"Ref": "Zips"}}}})
	return string(text)
}

func tagsOf(run string) []any { return []any{object{"Key": tag, "Value": run}} }

// readTemplate reads the output of make template and adds what the run needs: a role for its tasks, with the policy that the template makes
// for them, and a queue that receives the alarms. It also makes sure that no resource outlives its stack, and puts the run's tag on the
// table.
func readTemplate(dir, run string) (*template, error) {
	text, err := os.ReadFile(filepath.Join(dir, "nodelease.template.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: run make template first", err)
	}
	for _, arch := range []string{"arm64", "x86_64"} {
		for _, f := range functions {
			if _, err := os.Stat(filepath.Join(dir, arch, f+".zip")); err != nil {
				return nil, fmt.Errorf("%w: run make template first", err)
			}
		}
	}
	var doc object
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", dir, err)
	}
	t := &template{dir: dir, counts: map[string]int{}}
	resources, _ := doc["Resources"].(object)
	var policy, topic string
	for id, r := range resources {
		resource := r.(object)
		kind := resource["Type"].(string)
		t.counts[kind]++
		properties, _ := resource["Properties"].(object)
		if p := resource["DeletionPolicy"]; p != nil && p != "Delete" {
			resource["DeletionPolicy"], resource["UpdateReplacePolicy"] = "Delete", "Delete"
		}
		switch kind {
		case "AWS::IAM::ManagedPolicy":
			policy = id
		case "AWS::SNS::Topic":
			topic = id
		case "AWS::DynamoDB::GlobalTable": // a global table's tags belong to its replicas
			for _, replica := range properties["Replicas"].([]any) {
				replica.(object)["Tags"] = tagsOf(run)
			}
		case "AWS::CloudWatch::Alarm":
			t.alarmed += alarmedMetrics(properties)
		}
	}
	if policy == "" || topic == "" {
		return nil, fmt.Errorf("%s has no managed policy or no topic: was it written by make template?", dir)
	}
	t.add(resources, policy, topic)
	outputs := doc["Outputs"].(object)
	outputs["VerifyRole"] = object{"Value": object{"Fn::GetAtt": []any{taskRole, "Arn"}}}
	outputs["VerifyQueue"] = object{"Value": object{"Ref": queue}}
	outputs[clocksFunction] = object{"Value": object{"Ref": clocksFunction}}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	t.body = string(body)
	if len(t.body) > 51200 {
		return nil, fmt.Errorf("the template has %d bytes: CloudFormation accepts 51,200 in a request", len(t.body))
	}
	return t, nil
}

// add adds the resources of the run to the resources of the template.
func (t *template) add(resources object, policy, topic string) {
	ref := func(id string) object { return object{"Ref": id} }
	arn := func(id string) object { return object{"Fn::GetAtt": []any{id, "Arn"}} }
	statement := func(principal, action, condition object) object {
		return object{"Version": "2012-10-17", "Statement": []any{object{"Effect": "Allow", "Principal": principal, "Action": action["Action"], "Resource": action["Resource"], "Condition": condition}}}
	}
	trust := statement(object{"AWS": object{"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}}, object{"Action": "sts:AssumeRole"}, nil)
	trusted := trust["Statement"].([]any)[0].(object)
	delete(trusted, "Resource")
	delete(trusted, "Condition")
	resources[taskRole] = object{"Type": "AWS::IAM::Role", "Properties": object{"AssumeRolePolicyDocument": trust, "ManagedPolicyArns": []any{ref(policy)}}}
	resources[queue] = object{"Type": "AWS::SQS::Queue", "DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete"}
	resources[queue+"Policy"] = object{"Type": "AWS::SQS::QueuePolicy", "Properties": object{
		"Queues": []any{ref(queue)},
		"PolicyDocument": statement(object{"Service": "sns.amazonaws.com"}, object{"Action": "sqs:SendMessage", "Resource": arn(queue)},
			object{"ArnEquals": object{"aws:SourceArn": ref(topic)}}),
	}}
	resources[queue+"Subscription"] = object{"Type": "AWS::SNS::Subscription", "Properties": object{
		"TopicArn": ref(topic), "Protocol": "sqs", "Endpoint": arn(queue),
	}}
	// The role of the function clocks permits nothing, so that the function leaves no log behind.
	byLambda := statement(object{"Service": "lambda.amazonaws.com"}, object{"Action": "sts:AssumeRole"}, nil)
	trusted = byLambda["Statement"].([]any)[0].(object)
	delete(trusted, "Resource")
	delete(trusted, "Condition")
	resources[clocksFunction+"Role"] = object{"Type": "AWS::IAM::Role", "Properties": object{"AssumeRolePolicyDocument": byLambda}}
	resources[clocksFunction] = object{"Type": "AWS::Lambda::Function", "Properties": object{
		"Code": object{"S3Bucket": ref("ZipBucket"), "S3Key": clocksZip}, "Handler": "bootstrap", "Runtime": "provided.al2023", "Role": arn(clocksFunction + "Role"),
		"Architectures": []any{ref("Architecture")}, "MemorySize": 256, "Timeout": 10,
	}}
	for _, kind := range []string{"AWS::IAM::Role", "AWS::IAM::Role", "AWS::Lambda::Function", "AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::SNS::Subscription"} {
		t.counts[kind]++
	}
	t.counts["AWS::S3::Bucket"]++ // the bucket of the other stack
}

// alarmedMetrics returns how many metrics an alarm watches.
func alarmedMetrics(properties object) (n int) {
	metrics, _ := properties["Metrics"].([]any)
	if metrics == nil {
		return 1
	}
	for _, m := range metrics {
		if m.(object)["MetricStat"] != nil {
			n++
		}
	}
	return n
}

// Prices from docs/cost.md, in US dollars (a test compares them), and the number of metrics that poolmetric writes for a pool.
const (
	priceMetric    = 0.30
	priceAlarm     = 0.10
	priceDashboard = 3.00
	poolGauges     = 11
)

// monthly returns the monthly cost of the stack in US dollars, without requests.
func (t *template) monthly() float64 {
	return poolGauges*priceMetric + float64(t.alarmed)*priceAlarm + float64(t.counts["AWS::CloudWatch::Dashboard"])*priceDashboard
}

// plan returns a list of the resources that will be created, and their costs.
func (t *template) plan(run string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThis will create two CloudFormation stacks, %s and %s, with the tag %s=%s and these resources:\n\n",
		stackPrefix+run, stackPrefix+run+zipsSuffix, tag, run)
	kinds := make([]string, 0, len(t.counts))
	for k := range t.counts {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %3d  %s\n", t.counts[k], k)
	}
	fmt.Fprintf(&b, `
They are deleted at the end, including the table with all its items, which normally outlives its stack.
The run takes about half an hour and costs less than $0.10: DynamoDB and Lambda on demand for some thousand requests, and %d metrics in alarms,
%d custom metrics and a dashboard by the hour. If the stacks stay, they cost $%.2f a month. CloudWatch keeps the metrics themselves
for 15 months, free of charge. Prices are those of docs/cost.md, in us-east-1.

`, t.alarmed, poolGauges, t.monthly())
	return b.String()
}
