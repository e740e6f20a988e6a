package nodepool

import (
	"strconv"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"
)

// metricNamespace is the namespace of the poolmetric function's metrics, with the dimensions Table and Pool.
const metricNamespace = "Nodelease"

// horizon is the largest time to exhaustion, and the value shown while the pool is not filling up.
const horizon = 24 * time.Hour

func (n *NodePool) period() awscdk.Duration {
	return awscdk.Duration_Minutes(jsii.Number(n.props.Every.Minutes()))
}

// gauge returns one of the pool's published metrics. The metric has no label, because CDK writes alarms on labelled metrics as queries, which
// emulators do not evaluate.
func (p *Pool) gauge(name, statistic string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String(metricNamespace),
		MetricName:    jsii.String(name),
		DimensionsMap: &map[string]*string{"Table": p.nodes.table.TableName(), "Pool": jsii.String(p.props.Name)},
		Statistic:     jsii.String(statistic),
		Period:        p.nodes.period(),
	})
}

// timeToExhaustion returns the time to exhaustion in minutes: the number of node IDs that
// are not held, divided by the rate at which it decreases. That number is computed as
// capacity minus held. It is not the gauge Free, since an expired node ID can be claimed
// now, and a cooling one soon. For a pool that is not filling up, the value is the horizon.
func (p *Pool) timeToExhaustion() awscloudwatch.MathExpression {
	most := strconv.Itoa(int(horizon.Minutes()))
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String("IF(RATE(held) > 0, (capacity - held) / (60 * RATE(held)), " + most + ")"),
		UsingMetrics: &map[string]awscloudwatch.IMetric{
			"capacity": p.gauge("Capacity", "Minimum"),
			"held":     p.gauge("Held", "Maximum"),
		},
		Period: p.nodes.period(),
		Label:  jsii.String("Minutes to exhaustion (" + most + ": not filling up)"),
	})
}

// tableThrottles counts requests to the table that DynamoDB rejected.
func (n *NodePool) tableThrottles() awscloudwatch.MathExpression {
	count := func(name string) awscloudwatch.IMetric {
		return n.table.Metric(jsii.String(name), &awscloudwatch.MetricOptions{Statistic: jsii.String("Sum"), Period: n.period()})
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String("FILL(reads, 0) + FILL(writes, 0)"),
		UsingMetrics: &map[string]awscloudwatch.IMetric{
			"reads":  count("ReadThrottleEvents"),
			"writes": count("WriteThrottleEvents"),
		},
		Period: n.period(),
		Label:  jsii.String("Throttled requests"),
	})
}
