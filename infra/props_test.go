package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const strong = awsdynamodb.MultiRegionConsistency_STRONG

// Wrong properties make the synthesis fail, with an error that has the value and the remedy.
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
		"no node IDs":     {pool(nodepool.PoolProps{Name: "a"}), []string{"Pools[1].Size is 0", "1 to 65536"}},
		"too many":        {pool(nodepool.PoolProps{Name: "a", Size: 65537}), []string{"Pools[1].Size is 65537"}},
		"all reserved":    {pool(nodepool.PoolProps{Name: "a", Size: 8, ExcludeBelow: 8}), []string{"ExcludeBelow is 8 of 8", "leave a node ID"}},
		"early floor":     {pool(nodepool.PoolProps{Name: "a", Size: 8, Floor: time.Unix(0, 0).UTC()}), []string{"Floor is 1970-01-01"}},
		"too often":       {func(p *nodepool.Props) { p.Every = 30 * time.Second }, []string{"Every is 30s", "whole minutes"}},
		"not minutes":     {func(p *nodepool.Props) { p.Every = 90 * time.Second }, []string{"Every is 1m30s"}},
		"percent":         {func(p *nodepool.Props) { p.UtilizationAlarm = 101 }, []string{"UtilizationAlarm is 101", "percentage"}},
		"horizon":         {func(p *nodepool.Props) { p.ExhaustionAlarm = 48 * time.Hour }, []string{"ExhaustionAlarm is 48h", "24h"}},
		"too rarely":      {func(p *nodepool.Props) { p.Every, p.ExhaustionAlarm = time.Hour, 30*time.Minute }, []string{"ExhaustionAlarm is 30m0s, but Every is 1h0m0s", "of 1h0m0s or more", "a shorter Every"}},
		"no zips":         {func(p *nodepool.Props) { p.FunctionsDir = "nowhere" }, []string{"no reaper.zip", "make functions"}},
		"eventual":        {func(p *nodepool.Props) { p.Replicas = []string{"us-east-2", "us-west-2"} }, []string{"set Consistency to STRONG", "two processes"}},
		"two Regions":     {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-2"}, strong }, []string{"exactly three Regions"}},
		"own Region":      {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-1", "us-west-2"}, strong }, []string{"us-east-1 is named twice"}},
		"far away":        {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-2", "eu-west-1"}, strong }, []string{"eu-west-1 cannot be in one table with us-east-1", "us-east-1, us-east-2, us-west-2"}},
		"same continent":  {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-2", "us-west-1"}, strong }, []string{"us-west-1 cannot be in one table"}},
		"unnamed Region":  {func(p *nodepool.Props) { p.Replicas, p.Consistency = []string{"us-east-2", ""}, strong }, []string{"Replicas[1] is empty"}},
		"destroy":         {func(p *nodepool.Props) { p.RemovalPolicy = awscdk.RemovalPolicy_DESTROY }, []string{"RemovalPolicy is DESTROY", "set AllowDeletion"}},
		"snapshot":        {func(p *nodepool.Props) { p.RemovalPolicy, p.AllowDeletion = awscdk.RemovalPolicy_SNAPSHOT, true }, []string{"RemovalPolicy is SNAPSHOT", "use RETAIN"}},
		"table name":      {func(p *nodepool.Props) { p.TableName = "node ids" }, []string{`TableName is "node ids"`, "3 to 255"}},
		"table's ARN":     {func(p *nodepool.Props) { p.TableName = "arn:aws:dynamodb:us-east-1:111111111111:table/ids" }, []string{"TableName is", "3 to 255"}},
		"long table name": {func(p *nodepool.Props) { p.TableName = strings.Repeat("x", 256) }, []string{"3 to 255"}},
		"expired":         {func(p *nodepool.Props) { p.ExpiredAlarm = -1 }, []string{"ExpiredAlarm is -1", "percentage"}},
		"max ttl":         {func(p *nodepool.Props) { p.Pools[0].MaxTTL = 25 * time.Hour }, []string{"Pools[0].MaxTTL is 25h0m0s", "1 second to 24 hours"}},
		"max reserve":     {func(p *nodepool.Props) { p.Pools[0].MaxReserve = -1 }, []string{"Pools[0].MaxReserve is -1ns", "1 second to 24 hours"}},
		"expect":          {func(p *nodepool.Props) { p.Pools[0].Expect = 2000 }, []string{"Pools[0].Expect is 2000 of 1024", "raise Size"}},
		"pools":           {func(p *nodepool.Props) { p.Pools = many(41, 3) }, []string{"Pools are 41", "at most 40", "several NodePools"}},
		"environment":     {func(p *nodepool.Props) { p.Pools = many(40, 64) }, []string{"bytes of the functions' environment", "Lambda allows 4096"}},
		"layout":          {func(p *nodepool.Props) { p.Pools[0].Layout = "wide" }, []string{"Pools[0].Layout: layout wide: use default"}},
		"narrow layout":   {func(p *nodepool.Props) { p.Pools[0].Size, p.Pools[0].Layout = 2000, "default" }, []string{"which holds 1024 node IDs, and Size is 2000"}},
		"replica's key":   {func(p *nodepool.Props) { p.ReplicaKeys = map[string]string{"us-east-2": "key"} }, []string{"ReplicaKeys has a key of us-east-2", `ReplicaKeys["us-east-2"] is "key"`}},
		"witness alone":   {func(p *nodepool.Props) { p.Witness = "us-west-2" }, []string{`Witness is "us-west-2"`, "without Replicas"}},
		"several at once": {func(p *nodepool.Props) { p.Pools[0].Size, p.Every = -1, time.Second }, []string{"Size is -1", "Every is 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			stack := newStack(t, "us-east-1")
			nodes := nodepool.New(stack, "Nodes", orders(tt.edit))
			nodes.AlarmTopic().TopicArn() // every call works, so that the app gets as far as the synthesis
			wantRefused(t, stack, tt.want...)
		})
	}
}

// many returns n pools, each with a name of the given length.
func many(n, letters int) (pools []nodepool.PoolProps) {
	for i := range n {
		pools = append(pools, nodepool.PoolProps{Name: fmt.Sprintf("%0*d", letters, i), Size: 2})
	}
	return pools
}

// The largest number of pools that is accepted fits into a stack.
func TestAsManyPoolsAsThereMayBe(t *testing.T) {
	stack := newStack(t, "")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.Pools = many(40, 30) }))
	doc := template(t, stack)
	if n := len(doc.Resources); n > 490 { // with room for the rest of the stack
		t.Errorf("%d resources for 40 pools, want at most 490", n)
	}
	if n := len(doc.Outputs); n > 200 {
		t.Errorf("%d outputs, want at most 200", n)
	}
}

func TestStrongConsistencyIsNotOfferedEverywhere(t *testing.T) {
	stack := newStack(t, "sa-east-1")
	nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) {
		p.Replicas, p.Consistency = []string{"us-east-2", "us-west-2"}, strong
	}))
	wantRefused(t, stack, "the stack's Region is sa-east-1", "{us-east-1, us-east-2, us-west-2}")
}

// Zips from which a function could not start would hang a deployment, so they are refused.
func TestWrongZips(t *testing.T) {
	arm := program(elf.EM_AARCH64)
	for name, tt := range map[string]struct {
		zip  []byte
		want string
	}{
		"no zip":       {nil, "reaper.zip: zip: not a valid zip file"},
		"empty":        {emptyZip, "reaper.zip is empty"},
		"another name": {zipOf("reaper", 0o755, arm), "has no file bootstrap at its top"},
		"mode":         {zipOf("bootstrap", 0o644, arm), "has the mode -rw-r--r--"},
		"nothing":      {zipOf("bootstrap", 0o755, nil), "is no program of Linux"},
		"script":       {zipOf("bootstrap", 0o755, []byte("#!/bin/sh\necho no program\n")), "is no program of Linux"},
		"architecture": {zipOf("bootstrap", 0o755, program(elf.EM_X86_64)), "is for EM_X86_64, not EM_AARCH64; run `make functions`"},
		"cut off":      {zipOf("bootstrap", 0o755, arm)[:90], "not a valid zip file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, function := range []string{"bootstrap", "reaper", "poolmetric"} {
				text, err := os.ReadFile(filepath.Join(zips, function+".zip"))
				if err != nil {
					t.Fatal(err)
				}
				if function == "reaper" {
					text = tt.zip
				}
				if err := os.WriteFile(filepath.Join(dir, function+".zip"), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			stack := newStack(t, "")
			nodepool.New(stack, "Nodes", orders(func(p *nodepool.Props) { p.FunctionsDir = dir }))
			wantRefused(t, stack, "FunctionsDir has no reaper.zip for arm64", tt.want)
		})
	}
}

var emptyZip = append([]byte("PK\x05\x06"), make([]byte, 18)...)

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

// refusal synthesizes the stack's app and returns the error message, or "" if the synthesis succeeds.
func refusal(stack awscdk.Stack) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = fmt.Sprint(r)
		}
	}()
	awscdk.Stage_Of(stack).Synth(nil)
	return ""
}

// wantRefused synthesizes the stack's app. The test fails unless the error has all of these texts.
func wantRefused(t *testing.T, stack awscdk.Stack, texts ...string) {
	t.Helper()
	message := refusal(stack)
	for _, text := range texts {
		if !strings.Contains(message, text) {
			t.Errorf("the synthesis says %q, want %q in it", message, text)
		}
	}
}
