package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const strong = awsdynamodb.MultiRegionConsistency_STRONG

// Wrong properties fail at synth, with the value and what to do instead.
func TestWrongProps(t *testing.T) {
	pool := func(p nodepool.PoolProps) func(*nodepool.Props) {
		return func(props *nodepool.Props) { props.Pools = append(props.Pools, p) }
	}
	for name, tt := range map[string]struct {
		edit func(*nodepool.Props)
		want []string
	}{
		"no pool":         {func(p *nodepool.Props) { p.Pools = nil }, []string{"Pools is empty", "name at least one pool"}},
		"pool name":       {pool(nodepool.PoolProps{Name: "a#b", Size: 1}), []string{`Pools[1].Name: pool name "a#b"`, "1 to 64"}},
		"wildcard":        {pool(nodepool.PoolProps{Name: "*", Size: 1}), []string{`Pools[1].Name: pool name "*"`}},
		"long name":       {pool(nodepool.PoolProps{Name: strings.Repeat("x", 65), Size: 1}), []string{"1 to 64"}},
		"twice":           {pool(nodepool.PoolProps{Name: "orders", Size: 1}), []string{`"orders" for the second time`}},
		"no numbers":      {pool(nodepool.PoolProps{Name: "a"}), []string{"Pools[1].Size is 0", "1 to 65536"}},
		"too many":        {pool(nodepool.PoolProps{Name: "a", Size: 65537}), []string{"Pools[1].Size is 65537"}},
		"all reserved":    {pool(nodepool.PoolProps{Name: "a", Size: 8, ReservedLow: 8}), []string{"ReservedLow is 8 of 8", "leave a number"}},
		"early floor":     {pool(nodepool.PoolProps{Name: "a", Size: 8, Floor: time.Unix(0, 0).UTC()}), []string{"Floor is 1970-01-01"}},
		"too often":       {func(p *nodepool.Props) { p.Every = 30 * time.Second }, []string{"Every is 30s", "whole minutes"}},
		"not minutes":     {func(p *nodepool.Props) { p.Every = 90 * time.Second }, []string{"Every is 1m30s"}},
		"percent":         {func(p *nodepool.Props) { p.UtilizationAlarm = 101 }, []string{"UtilizationAlarm is 101", "percentage"}},
		"horizon":         {func(p *nodepool.Props) { p.ExhaustionAlarm = 48 * time.Hour }, []string{"ExhaustionAlarm is 48h", "24h"}},
		"no zips":         {func(p *nodepool.Props) { p.FunctionsDir = "nowhere" }, []string{"no reaper.zip", "make functions"}},
		"eventual":        {func(p *nodepool.Props) { p.Replicas = []string{"us-east-2", "us-west-2"} }, []string{"set Consistency to STRONG", "two processes"}},
		"two Regions":     {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-2"}, strong }, []string{"exactly three Regions"}},
		"own Region":      {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-1", "us-west-2"}, strong }, []string{"us-east-1 is named twice"}},
		"far away":        {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-2", "eu-west-1"}, strong }, []string{"eu-west-1 is not near us-east-1"}},
		"witness alone":   {func(p *nodepool.Props) { p.Witness = "us-west-2" }, []string{`Witness is "us-west-2"`, "without Replicas"}},
		"several at once": {func(p *nodepool.Props) { p.Pools[0].Size, p.Every = -1, time.Second }, []string{"Size is -1", "Every is 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "us-east-1")
			nodes := nodepool.New(stack, "Nodes", orders(tt.edit))
			nodes.AlarmTopic().TopicArn() // works, as every call does, so that the synthesis is reached
			wantRefused(t, stack, tt.want...)
		})
	}
}

func TestReplicasNeedARegion(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Replicas, p.Consistency = []string{"us-east-2", "us-west-2"}, strong
	}))
	wantRefused(t, stack, "set Env.Region")
}

func TestWrongArchitecture(t *testing.T) {
	wantRefused(t, stackOf(sample(t, map[string]any{"arch": "mips"}), "Nodelease"), `arch is "mips"`, "arm64, amd64 or x86_64")
}

func TestWrongSize(t *testing.T) {
	err := build(newApp(t, map[string]any{"size": "many"}), "..")
	if err == nil || !strings.Contains(err.Error(), `size is "many"`) {
		t.Errorf("build says %v", err)
	}
}

func TestUnknownPool(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(nil)).Pool("order")
	wantRefused(t, stack, `Pool("order")`, "use one of [orders]")
}

// refusal is what the synthesis of the stack's app says, or nothing if it succeeds.
func refusal(stack awscdk.Stack) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	awscdk.Stage_Of(stack).Synth(nil)
	return ""
}

// wantRefused synthesizes the stack's app and wants an error with all of these texts.
func wantRefused(t *testing.T, stack awscdk.Stack, texts ...string) {
	t.Helper()
	message := refusal(stack)
	for _, text := range texts {
		if !strings.Contains(message, text) {
			t.Errorf("the synthesis says %q, want %q in it", message, text)
		}
	}
}
