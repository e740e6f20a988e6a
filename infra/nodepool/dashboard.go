package nodepool

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// addDashboard adds a dashboard. A row of graphs for each pool shows whether its node IDs are about to run out. The command in each
// pool's heading and the last reports of the reaper show who holds which node ID.
func (n *NodePool) addDashboard() {
	n.dashboard = awscloudwatch.NewDashboard(n, jsii.String("Dashboard"), nil)
	for _, props := range n.props.Pools {
		n.dashboard.AddWidgets(n.pools[props.Name].widgets()...)
	}
	n.dashboard.AddWidgets(n.tableWidgets()...)
	n.dashboard.AddWidgets(n.logWidget())
}

func (p *Pool) widgets() []awscloudwatch.IWidget {
	name := p.props.Name
	gauges := func(names ...string) *[]awscloudwatch.IMetric {
		var metrics []awscloudwatch.IMetric
		for _, m := range names {
			metrics = append(metrics, p.gauge(m, "Maximum"))
		}
		return &metrics
	}
	left := &awscloudwatch.YAxisProps{Min: jsii.Number(0)}
	return []awscloudwatch.IWidget{
		awscloudwatch.NewTextWidget(&awscloudwatch.TextWidgetProps{
			Width: jsii.Number(24), Height: jsii.Number(2),
			Markdown: jsii.String(fmt.Sprintf("## Pool %s: %d node IDs, %d usable\nHolders: `nodelease list --table %s --pool %s`",
				name, p.props.Size, p.props.usable(), *p.nodes.table.TableName(), name)),
		}),
		awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String(name + ": are we about to run out?"), Width: jsii.Number(8), Height: jsii.Number(6),
			Left: gauges("Utilization"), LeftYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0), Max: jsii.Number(100)},
			LeftAnnotations: &[]*awscloudwatch.HorizontalAnnotation{{
				Value: jsii.Number(p.nodes.props.UtilizationAlarm), Label: jsii.String("alarm"), Color: awscloudwatch.Color_RED(),
			}},
		}),
		awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String(name + ": how long until then?"), Width: jsii.Number(8), Height: jsii.Number(6),
			Left: &[]awscloudwatch.IMetric{p.timeToExhaustion()}, LeftYAxis: left,
			LeftAnnotations: &[]*awscloudwatch.HorizontalAnnotation{{
				Value: jsii.Number(p.nodes.props.ExhaustionAlarm.Minutes()), Label: jsii.String("alarm"), Color: awscloudwatch.Color_RED(),
			}},
		}),
		awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String(name + ": node IDs by state"), Width: jsii.Number(8), Height: jsii.Number(6),
			Left: gauges("Capacity", "Held", "Free", "Expired", "Claimable", "Cooling", "Retired", "Corrupt", "Stuck", "Braked"), LeftYAxis: left,
		}),
	}
}

func (n *NodePool) tableWidgets() []awscloudwatch.IWidget {
	sum := &awscloudwatch.MetricOptions{Statistic: jsii.String("Sum"), Period: n.period()}
	var errors, durations []awscloudwatch.IMetric
	for _, name := range functionNames {
		errors = append(errors, n.functions[name].MetricErrors(sum))
		durations = append(durations, n.functions[name].MetricDuration(&awscloudwatch.MetricOptions{Statistic: jsii.String("Maximum"), Period: n.period()}))
	}
	graph := func(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
		return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
			Title: jsii.String(title), Width: jsii.Number(6), Height: jsii.Number(6), Left: &metrics,
			LeftYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0)},
		})
	}
	return []awscloudwatch.IWidget{
		graph("Table: capacity used",
			n.table.MetricConsumedWriteCapacityUnits(sum), n.table.MetricConsumedReadCapacityUnits(sum)),
		graph("Table: throttled requests", n.tableThrottles()),
		graph("Functions: errors", errors...),
		graph("Functions: longest run", durations...),
	}
}

// logWidget shows the reaper's log: the node IDs that it freed or found corrupt or stuck, and the
// holders that they had.
func (n *NodePool) logWidget() awscloudwatch.IWidget {
	return awscloudwatch.NewLogQueryWidget(&awscloudwatch.LogQueryWidgetProps{
		Title: jsii.String("Reports of the reaper"), Width: jsii.Number(24), Height: jsii.Number(8),
		LogGroupNames: &[]*string{n.functions[reaper].LogGroup().LogGroupName()},
		QueryLines:    jsii.Strings("fields @timestamp, @message", "filter @message like /^\\{/", "sort @timestamp desc", "limit 100"),
	})
}
