package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// Placeholders for a pool's name and size that occur nowhere else in the construct's template. The plain template is made from the construct's
// template, with parameters in place of the placeholders.
const (
	poolPlace = "x-pool-x"
	idPlace   = "xpoolx" // poolPlace in logical IDs
	sizePlace = 54321

	templateFile = "nodelease.template.json"
)

type object = map[string]any

func ref(name string) object { return object{"Ref": name} }

// warmWrites maps the choices for ExpectedHolders to the write units a second to which the table is warmed, as with nodepool.PoolProps.Expect.
var warmWrites = map[string]int{"12000": 0, "20000": 6667, "30000": 10000, "40000": 13334, "50000": 16667, "65536": 21846}

var parameters = object{
	"PoolName": object{"Type": "String", "Default": "orders", "AllowedPattern": "[A-Za-z0-9._-]{1,64}",
		"Description": "Name of the pool. Another name later is another ID space, and is refused without a new Floor"},
	"PoolSize": object{"Type": "Number", "Default": 1024, "MinValue": 1, "MaxValue": 65536, "Description": "How many node IDs the pool has: 1 to 65536. May be changed later"},
	"ExpectedHolders": object{"Type": "String", "Default": "12000", "AllowedValues": []string{"12000", "20000", "30000", "40000", "50000", "65536"},
		"Description": "The most node IDs held at once. Above 12000 the table is warmed, for which AWS charges once"},
	"ZipBucket":    object{"Type": "String", "Description": "The S3 bucket with the functions' zips, in the Region of the stack"},
	"ZipPrefix":    object{"Type": "String", "Default": "", "AllowedPattern": "(.*/)?", "Description": "Prefix of the zips in the bucket, empty or ending with a slash: PREFIXarm64/bootstrap.zip"},
	"Architecture": object{"Type": "String", "Default": "arm64", "AllowedValues": []string{"arm64", "x86_64"}, "Description": "Architecture of the functions and their zips"},
	"AlarmTopic":   object{"Type": "String", "Default": "", "Description": "ARN of an SNS topic for all alarms; if empty, one is created"},
	"ExpiredAlarm": object{"Type": "Number", "Default": 5, "MinValue": 1, "Description": "How many leases that remain expired set off an alarm"},
	"Layout":       object{"Type": "String", "Default": "", "Description": "Layout of the IDs, such as wide16; if empty, the first task's. Cannot be changed later"},
	"Floor":        object{"Type": "String", "Default": "", "Description": "All IDs are later than this time, in RFC 3339 or in ms since 1970; if empty, now"},
	"DeletionProtection": object{"Type": "String", "Default": "true", "AllowedValues": []string{"true", "false"},
		"Description": "Deletion protection of the table. The table outlives the stack in any case"},
}

// writeTemplate writes the plain template into a directory that has the functions' zips for arm64 in arm64/.
func writeTemplate(app awscdk.App, dir string) error {
	text, err := plainTemplate(app, filepath.Join(dir, "arm64"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, templateFile), text, 0o644) //nolint:gosec // a template has no secrets, and others read it
}

// plainTemplate returns a single CloudFormation template that needs no CDK: no bootstrap stack, no assets, no transform.
func plainTemplate(app awscdk.App, zips string) ([]byte, error) {
	stack := awscdk.NewStack(app, jsii.String("Plain"), &awscdk.StackProps{
		Description: jsii.String("Nodelease: node IDs leased from a DynamoDB table"),
		Synthesizer: awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{GenerateBootstrapVersionRule: jsii.Bool(false)}),
	})
	nodepool.New(stack, "Nodes", &nodepool.Props{
		Pools: []nodepool.PoolProps{{Name: poolPlace, Size: sizePlace}}, FunctionsDir: zips,
	})
	text, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		return nil, err
	}
	var doc object
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	p := plain{}
	doc = p.walk("", doc).(object)
	for id, r := range doc["Resources"].(object) {
		resource := r.(object)
		delete(resource, "Metadata")
		if err := p.edit(id, resource["Type"].(string), resource, resource["Properties"].(object)); err != nil {
			return nil, err
		}
	}
	outputs := doc["Outputs"].(object)
	outputs["NodesAlarmTopic"].(object)["Value"] = p.topic()
	holders := object{}
	for n, writes := range warmWrites {
		holders[n] = object{"Writes": writes}
	}
	doc["Parameters"] = parameters
	doc["Mappings"] = object{"Holders": holders}
	doc["Conditions"] = object{
		"OwnTopic": object{"Fn::Equals": []any{ref("AlarmTopic"), ""}},
		"Cold":     object{"Fn::Equals": []any{ref("ExpectedHolders"), "12000"}},
		"Several":  object{"Fn::Not": []any{object{"Fn::Equals": []any{ref("PoolSize"), "1"}}}},
	}
	doc["AWSTemplateFormatVersion"] = "2010-09-09"
	out, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return nil, err
	}
	if s := string(out); strings.Contains(s, poolPlace) || strings.Contains(s, idPlace) || strings.Contains(s, fmt.Sprint(sizePlace)) || p.topicID == "" {
		return nil, fmt.Errorf("the template still has a placeholder that no parameter fills, or no topic: %q", p.topicID)
	}
	return append(out, '\n'), nil
}

// plain turns a synthesized template into a template with parameters.
type plain struct{ topicID string }

func (p *plain) topic() object {
	return object{"Fn::If": []any{"OwnTopic", ref(p.topicID), ref("AlarmTopic")}}
}

// walk returns v with parameters in place of the placeholders.
func (p *plain) walk(key string, v any) any {
	switch v := v.(type) {
	case object:
		if text, ok := v["Fn::Sub"].(string); ok {
			return object{"Fn::Sub": fill(text)}
		}
		out := object{}
		for k, child := range v {
			k = strings.ReplaceAll(k, idPlace, "pool")
			out[k] = p.walk(k, child)
			if child, ok := child.(object); ok && child["Type"] == "AWS::SNS::Topic" {
				p.topicID = k
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = p.walk("", v[i])
		}
		return out
	case string:
		switch v = strings.ReplaceAll(v, idPlace, "pool"); {
		case key == "Description" || key == "AlarmDescription":
			return strings.ReplaceAll(v, poolPlace, "of the stack") // an output's description cannot contain functions
		case v == poolPlace:
			return ref("PoolName")
		case v == fmt.Sprint(sizePlace):
			return ref("PoolSize")
		case fill(v) != v:
			return object{"Fn::Sub": fill(strings.ReplaceAll(v, "${", "${!"))}
		}
		return v
	}
	return v
}

func fill(text string) string {
	return strings.NewReplacer(poolPlace, "${PoolName}", fmt.Sprint(sizePlace), "${PoolSize}").Replace(text)
}

// fullAlarms matches the IDs of the alarms of a pool that is full, or will be.
var fullAlarms = regexp.MustCompile(`(utilization|exhausted|runningout)[0-9A-F]{8}$`)

// edit applies the differences between a resource of the construct and that of the plain template.
func (p *plain) edit(id, kind string, resource, properties object) error {
	switch kind {
	case "AWS::Lambda::Function":
		name := strings.TrimPrefix(properties["Description"].(string), "Nodelease ")
		properties["Code"] = object{"S3Bucket": ref("ZipBucket"), "S3Key": object{"Fn::Sub": "${ZipPrefix}${Architecture}/" + name + ".zip"}}
		properties["Architectures"] = []any{ref("Architecture")}
	case "AWS::DynamoDB::GlobalTable":
		properties["WarmThroughput"] = object{"Fn::If": []any{"Cold", ref("AWS::NoValue"),
			object{"WriteUnitsPerSecond": object{"Fn::FindInMap": []any{"Holders", ref("ExpectedHolders"), "Writes"}}}}}
		properties["Replicas"].([]any)[0].(object)["DeletionProtectionEnabled"] = ref("DeletionProtection")
	case "AWS::CloudWatch::Alarm":
		properties["AlarmActions"], properties["OKActions"] = []any{p.topic()}, []any{p.topic()}
		if properties["InsufficientDataActions"] != nil {
			properties["InsufficientDataActions"] = []any{p.topic()}
		}
		// Invariant: no alarm stays on while all is well. The construct leaves these out of a pool of one node ID.
		if fullAlarms.MatchString(id) {
			resource["Condition"] = "Several"
		}
		if properties["MetricName"] == "Expired" {
			properties["Threshold"] = ref("ExpiredAlarm")
			properties["AlarmDescription"] = "Pool of the stack: node IDs with an expired lease: tasks crash, or cannot renew"
		}
	case "AWS::SNS::Topic", "AWS::SNS::TopicPolicy":
		resource["Condition"] = "OwnTopic"
	case "Custom::NodeleasePool":
		properties["Layout"], properties["Floor"] = ref("Layout"), ref("Floor")
	case "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role", "AWS::Logs::LogGroup", "AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::Events::Rule",
		"AWS::Lambda::Permission", "AWS::Lambda::EventInvokeConfig", "AWS::CloudWatch::Dashboard":
	default:
		return fmt.Errorf("%s is a %s, which the plain template does not know: check which of its properties depend on a parameter", id, kind)
	}
	return nil
}
