package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/infra/nodepool"
)

const (
	hours     = 730.0
	itemBytes = 400.0
	seconds   = 0.2
	gigabytes = 0.25
)

// docs/cost.md is recomputed from its own prices.
func TestCostPage(t *testing.T) {
	text, err := os.ReadFile("../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	price := map[string]float64{}
	for _, row := range tableAfter(t, page, "## Prices") {
		price[row[0]] = number(t, row[1])
	}
	check := func(where, cell string, want float64) {
		t.Helper()
		if got := number(t, cell); fmt.Sprintf("%.2f", got) != fmt.Sprintf("%.2f", want) {
			t.Errorf("%s is %s, but the formula gives %.2f", where, cell, want)
		}
	}

	for _, row := range tableAfter(t, page, "## The leases") {
		for i, every := range []float64{5, 10, 20} {
			check(row[0]+" nodes", row[i+1], number(t, row[0])*hours*3600/every*price["write"]/1e6)
		}
	}

	metrics, alarmed := watched(t, 1)
	_, alarmedByTwo := watched(t, 2)
	if says := fmt.Sprintf("there are %d metrics and %d metrics in alarms (%d of them once per table, %d per pool)",
		metrics, alarmed, 2*alarmed-alarmedByTwo, alarmedByTwo-alarmed); !strings.Contains(page, says) {
		t.Errorf("the page does not say: %s", says)
	}
	for _, row := range tableAfter(t, page, "## Looking after the pools") {
		for i, minutes := range []float64{1, 5, 15} {
			runs := hours * 60 / minutes
			reads := 2 * runs * number(t, row[0]) * itemBytes / 4096 / 2 * price["read"] / 1e6
			lambda := 2 * runs * (price["request"]/1e6 + seconds*gigabytes*price["compute"])
			watching := float64(metrics)*price["metric"] + float64(alarmed)*price["alarm"] + runs*price["api"]/1e3
			check(row[0]+" numbers", row[i+2], reads+lambda+watching)
		}
		check("units for "+row[0]+" numbers", row[1], number(t, row[0])*itemBytes/4096/2)
	}
}

// watched counts the custom metrics of a construct with so many pools, and the metrics that its alarms look at.
func watched(t *testing.T, pools int) (metrics, alarmed int) {
	t.Helper()
	stack := newStack(t, "")
	props := orders(nil)
	for i := 1; i < pools; i++ {
		props.Pools = append(props.Pools, nodepool.PoolProps{Name: "p" + strconv.Itoa(i), Size: 1})
	}
	nodepool.New(stack, "Nodes", props)
	for _, a := range template(t, stack).all("AWS::CloudWatch::Alarm") {
		if a.Properties["MetricName"] != nil {
			alarmed++
			continue
		}
		for _, m := range a.Properties["Metrics"].([]any) {
			if m.(map[string]any)["MetricStat"] != nil {
				alarmed++
			}
		}
	}
	return len(gauges) * pools, alarmed
}

// tableAfter returns the rows of the first table after a heading, without its header.
func tableAfter(t *testing.T, page, heading string) (rows [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(page, heading+"\n")
	if !found {
		t.Fatalf("the page has no %q", heading)
	}
	for _, line := range strings.Split(rest, "\n") {
		if strings.HasPrefix(line, "## ") {
			break
		}
		if strings.HasPrefix(line, "|") {
			var cells []string
			for _, cell := range strings.Split(strings.Trim(line, "|"), " | ") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) < 3 {
		t.Fatalf("no table behind %q", heading)
	}
	return rows[2:]
}

var notNumber = regexp.MustCompile(`[^0-9.]`)

func number(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(notNumber.ReplaceAllString(text, ""), 64)
	if err != nil {
		t.Fatalf("%q is no number", text)
	}
	return f
}
