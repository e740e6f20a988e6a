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

// The tables of docs/cost.md are recomputed from the prices on the page. Rewrite them with
//
//	go test ./infra -run CostPage -update
func TestCostPage(t *testing.T) {
	const file = "../docs/cost.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	price := map[string]float64{}
	for _, row := range tableAfter(t, page, "## Prices") {
		price[row[0]] = number(t, row[1])
	}
	replace := func(got, want string) {
		t.Helper()
		if got == want {
			return
		}
		if page = strings.Replace(page, got, want, 1); !*update {
			t.Errorf("%s has\n%s\nbut the formula yields\n%s\nUpdate it with: make docs", file, got, want)
		}
	}

	for _, row := range tableAfter(t, page, "## The leases") {
		want := row[:1:1]
		for _, every := range []float64{5, 10, 20} {
			want = append(want, dollars(number(t, row[0])*hours*3600/every*price["write"]/1e6))
		}
		replace(line(row), line(want))
	}

	metrics, alarmed := watched(t)
	_, alarmedByTwo := watched(t, 2)
	_, alarmedByOneNodeID := watched(t, 1)
	says := regexp.MustCompile(`there are \d+ metrics and \d+ metrics in alarms \(\d+ of them once per table, \d+ per pool\)\. A pool in which only one node ID can be leased has \d+ of these \d+\.`).FindString(page)
	if says == "" {
		t.Fatalf("%s does not count metrics and alarms", file)
	}
	perPool := alarmedByTwo - alarmed
	replace(says, fmt.Sprintf("there are %d metrics and %d metrics in alarms (%d of them once per table, %d per pool). A pool in which only one node ID can be leased has %d of these %d.",
		metrics, alarmed, alarmed-perPool, perPool, alarmedByOneNodeID-alarmed, perPool))
	for _, row := range tableAfter(t, page, "## Looking after the pools") {
		want := append(row[:1:1], dollars(number(t, row[0])*itemBytes/4096/2))
		for _, minutes := range []float64{1, 5, 15} {
			runs := hours * 60 / minutes
			reads := 2 * runs * number(t, row[0]) * itemBytes / 4096 / 2 * price["read"] / 1e6
			lambda := 2 * runs * (price["request"]/1e6 + seconds*gigabytes*price["compute"])
			watching := float64(metrics)*price["metric"] + float64(alarmed)*price["alarm"] + runs*price["api"]/1e3
			want = append(want, dollars(reads+lambda+watching))
		}
		replace(line(row), line(want))
	}
	if *update && page != string(text) {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// line returns a row of a table.
func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }

// dollars formats an amount with two decimals, and commas between thousands.
func dollars(v float64) string {
	text := fmt.Sprintf("%.2f", v)
	for i := len(text) - 6; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// watched counts the custom metrics of a construct with one pool and others of these sizes, and the metrics that its alarms use.
func watched(t *testing.T, others ...int) (metrics, alarmed int) {
	t.Helper()
	stack := newStack(t, "")
	props := orders(nil)
	for i, size := range others {
		props.Pools = append(props.Pools, nodepool.PoolProps{Name: "p" + strconv.Itoa(i), Size: size})
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
	return len(gauges) * len(props.Pools), alarmed
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
		t.Fatalf("%q is not a number", text)
	}
	return f
}
