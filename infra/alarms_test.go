package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// gauges are the metrics that the poolmetric function publishes. An alarm on another name would never go off.
var gauges = []string{"Capacity", "Held", "Free", "Expired", "Claimable", "Cooling", "Retired", "Utilization", "Corrupt", "Stuck", "Braked"}

func TestAlarms(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 300})
		p.UtilizationAlarm, p.ExpiredAlarm = 70, 10
	}))
	type shape struct {
		compare   string
		threshold float64
		periods   float64
		missing   string
	}
	want := map[string]shape{
		"tablethrottled": {">=", 1, 3, "notBreaching"},
		"eventsfailed":   {">=", 1, 1, "notBreaching"},
	}
	for _, pool := range []string{"orders", "mail"} {
		want[pool+"utilization"] = shape{">=", 70, 3, "ignore"}
		want[pool+"exhausted"] = shape{"<", 1, 1, "ignore"}
		want[pool+"runningout"] = shape{"<", 60, 10, "ignore"}
		want[pool+"corrupt"] = shape{">=", 1, 1, "ignore"}
		want[pool+"stuck"] = shape{">=", 1, 3, "ignore"}
		want[pool+"braked"] = shape{">=", 1, 5, "ignore"}
		want[pool+"expired"] = shape{">=", map[string]float64{"orders": 103, "mail": 30}[pool], 5, "ignore"}
		want[pool+"nodata"] = shape{"<", 1, 5, "missing"}
	}
	for _, function := range []string{"bootstrap", "reaper", "poolmetric"} {
		want[function+"errors"] = shape{">=", 1, 1, "notBreaching"}
		want[function+"throttles"] = shape{">=", 1, 3, "notBreaching"}
	}
	operators := map[string]string{"GreaterThanOrEqualToThreshold": ">=", "LessThanThreshold": "<"}

	got := map[string]shape{}
	for id, a := range template(t, stack).all("AWS::CloudWatch::Alarm") {
		p := a.Properties
		name := strings.TrimPrefix(id[:len(id)-8], "Nodes")
		got[name] = shape{operators[p["ComparisonOperator"].(string)], p["Threshold"].(float64), p["EvaluationPeriods"].(float64), p["TreatMissingData"].(string)}
		for _, when := range []string{"AlarmActions", "OKActions"} {
			if actions, _ := json.Marshal(p[when]); !strings.Contains(string(actions), "NodesAlarms") {
				t.Errorf("%s: %s are %s", name, when, actions)
			}
		}
		// A new alarm has no data, so missing data must not set it off. Only the no-data alarm reports when data stop.
		gaps, _ := json.Marshal(p["InsufficientDataActions"])
		if reports := strings.Contains(string(gaps), "NodesAlarms"); reports != strings.HasSuffix(name, "nodata") {
			t.Errorf("%s: its InsufficientDataActions are %s", name, gaps)
		}
		if p["AlarmDescription"] == "" || len(p["AlarmDescription"].(string)) < 20 {
			t.Errorf("%s does not describe the problem", name)
		}
		// Emulators do not evaluate alarms that are written as queries. CDK also writes an alarm on a labelled metric as a query.
		if isQuery := p["MetricName"] == nil; isQuery != (strings.HasSuffix(name, "runningout") || name == "tablethrottled") {
			t.Errorf("%s: written as a query: %v", name, isQuery)
		}
		if p["Namespace"] == "Nodelease" && !slices.Contains(gauges, p["MetricName"].(string)) {
			t.Errorf("%s is on %v, which is never published", name, p["MetricName"])
		}
		if strings.HasSuffix(name, "exhausted") && (p["MetricName"] != "Claimable" || p["Statistic"] != "Minimum") {
			t.Errorf("%s is on the %v of %v, want the smallest number of node IDs that can be claimed", name, p["Statistic"], p["MetricName"])
		}
		if dimensions, _ := json.Marshal(p["Dimensions"]); p["Namespace"] == "Nodelease" &&
			!(strings.Contains(string(dimensions), `{"Name":"Table","Value":{"Ref":"NodesTable`) && strings.Contains(string(dimensions), `"Name":"Pool"`)) {
			t.Errorf("%s has the dimensions %s, want Table and Pool", name, dimensions)
		}
	}
	if !maps.Equal(got, want) {
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s is %v, want %v", name, got[name], want[name])
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%s is not expected", name)
			}
		}
	}
}

// The alarm on expired leases goes off when a fleet crashes that holds a small part of a large pool.
func TestExpiredAlarmOfAFewHolders(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = []nodepool.PoolProps{
			{Name: "narrow", Size: 65536, Layout: "wide16", Narrow: true, Expect: 200}, {Name: "few", Size: 1024, Expect: 6}, {Name: "full", Size: 1024},
		}
	}))
	want := map[string]float64{"narrow": 10, "few": 1, "full": 52}
	for id, a := range template(t, stack).all("AWS::CloudWatch::Alarm") {
		pool, ok := strings.CutSuffix(strings.TrimPrefix(id[:len(id)-8], "Nodes"), "expired")
		if ok && a.Properties["Threshold"] != want[pool] {
			t.Errorf("%s: got a threshold of %v expired leases, want %v", pool, a.Properties["Threshold"], want[pool])
		}
		if text := a.Properties["AlarmDescription"].(string); ok && strings.Contains(text, "that are held at once") != (pool != "full") {
			t.Errorf("%s: got the description %q, want it to say of what the percentage is", pool, text)
		}
	}
}

// A pool of one node ID, such as that of a leader, is full while all is well. No alarm is on.
func TestNoAlarmOfAFullPoolOfOne(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = []nodepool.PoolProps{{Name: "leader", Size: 1}, {Name: "last", Size: 8, ExcludeBelow: 7}, {Name: "pair", Size: 2}}
	}))
	got := map[string]int{}
	for id := range template(t, stack).all("AWS::CloudWatch::Alarm") {
		for _, pool := range []string{"leader", "last", "pair"} {
			if kind, ok := strings.CutPrefix(id[:len(id)-8], "Nodes"+pool); ok && slices.Contains([]string{"utilization", "exhausted", "runningout"}, kind) {
				got[pool]++
			}
		}
	}
	if want := map[string]int{"pair": 3}; !maps.Equal(got, want) {
		t.Errorf("got %v alarms of full pools, want %v", got, want)
	}
}

// The alarm running-out goes off before a pool that fills up evenly is full, however rarely the pool is measured.
func TestRunningOutBeforeThePoolIsFull(t *testing.T) {
	stack := newStack(t, "")
	want := map[int]float64{1: 10, 3: 10, 10: 3, 60: 1} // measurements in a row, by the minutes between two of them
	for every := range want {
		nodepool.New(stack, fmt.Sprintf("Every%dm", every), orders(func(p *nodepool.Props) { p.Every = time.Duration(every) * time.Minute }))
	}
	alarms := template(t, stack).all("AWS::CloudWatch::Alarm")
	for every, periods := range want {
		for name, a := range alarms {
			if !strings.HasPrefix(name, fmt.Sprintf("Every%dmordersrunningout", every)) {
				continue
			}
			got, threshold := a.Properties["EvaluationPeriods"].(float64), a.Properties["Threshold"].(float64)
			if got != periods {
				t.Errorf("every %d minutes: got %v measurements in a row, want %v", every, got, periods)
			}
			// The first measurement below the threshold has at most one interval less left.
			if left := threshold - got*float64(every); left < 0 {
				t.Errorf("every %d minutes: when the alarm goes off, %v minutes are left, want at least 0", every, left)
			}
		}
	}
}

// A topic policy that enforces TLS replaces the default policy. Unless it lets CloudWatch publish, no alarm would arrive.
func TestAlarmsMayPublish(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(nil))
	policy, _ := json.Marshal(template(t, stack).one(t, "AWS::SNS::TopicPolicy").Properties)
	if !strings.Contains(string(policy), `"Principal":{"Service":"cloudwatch.amazonaws.com"}`) {
		t.Errorf("CloudWatch may not publish: %s", policy)
	}
}

func TestOwnTopic(t *testing.T) {
	stack := newStack(t, "")
	topic := awssns.NewTopic(stack, jsii.String("Pager"), nil)
	nodes := nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.AlarmTopic = topic }))
	if *nodes.AlarmTopic().TopicArn() != *topic.TopicArn() {
		t.Error("AlarmTopic is another one")
	}
	doc := template(t, stack)
	if n := len(doc.all("AWS::SNS::Topic")); n != 1 {
		t.Errorf("there are %d topics", n)
	}
	for id, a := range doc.all("AWS::CloudWatch::Alarm") {
		if actions, _ := json.Marshal(a.Properties["AlarmActions"]); !strings.Contains(string(actions), "Pager") {
			t.Errorf("%s goes to %s", id, actions)
		}
	}
}

func TestDashboard(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Pools = append(p.Pools, nodepool.PoolProps{Name: "mail", Size: 300})
	}))
	body, _ := json.Marshal(template(t, stack).one(t, "AWS::CloudWatch::Dashboard").Properties["DashboardBody"])
	text := strings.ReplaceAll(string(body), `\`, "")
	for _, want := range append(gauges, "orders: are we about to run out?", "mail: are we about to run out?", "RATE(held)",
		"nodelease list --table", "ConsumedWriteCapacityUnits", "Reports of the reaper") {
		if !strings.Contains(text, want) {
			t.Errorf("the dashboard lacks %q", want)
		}
	}
}
