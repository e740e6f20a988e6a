package nodepool

import (
	"fmt"
	"math"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// newTopic returns Props.AlarmTopic, or makes a topic to which CloudWatch's alarms of this account may publish.
func (n *NodePool) newTopic() awssns.ITopic {
	if n.props.AlarmTopic != nil {
		return n.props.AlarmTopic
	}
	topic := awssns.NewTopic(n, jsii.String("Alarms"), &awssns.TopicProps{
		DisplayName: jsii.String("Nodelease alarms"),
		EnforceSSL:  jsii.Bool(true),
	})
	// Enforcing TLS adds a policy to the topic. It replaces the default policy, and only the default policy lets
	// alarms publish.
	topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sns:Publish"),
		Resources:  &[]*string{topic.TopicArn()},
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Stack_Of(n).Account()}},
	}))
	return topic
}

// alarm contains the properties in which the construct's alarms differ.
type alarm struct {
	id, why   string
	metric    awscloudwatch.IMetric
	compare   awscloudwatch.ComparisonOperator
	threshold float64
	periods   float64 // how many periods in a row must breach the threshold
	missing   awscloudwatch.TreatMissingData
}

const (
	atLeast = awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD
	below   = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD

	// Only the no-data alarm reports a gap in the pool's gauges: the other alarms keep their state through it.
	ignore = awscloudwatch.TreatMissingData_IGNORE
	isFine = awscloudwatch.TreatMissingData_NOT_BREACHING
	// An alarm reports only changes of its state, and begins in INSUFFICIENT_DATA. So the no-data alarm reports
	// nothing before the first measurement, and its return to INSUFFICIENT_DATA reports that the measurements have
	// stopped.
	isGap = awscloudwatch.TreatMissingData_MISSING
)

func (n *NodePool) addAlarms(queue awssqs.Queue) {
	for _, props := range n.props.Pools {
		for _, a := range n.pools[props.Name].alarms() {
			n.addAlarm(a)
		}
	}
	for _, name := range functionNames {
		for _, a := range functionAlarms(name, n.functions[name], n.period()) {
			n.addAlarm(a)
		}
	}
	n.addAlarm(alarm{"table-throttled", "DynamoDB turns requests to the table away: leases are renewed late",
		n.tableThrottles(), atLeast, 1, 3, isFine})
	n.addAlarm(alarm{"events-failed", "Scheduled runs of the reaper or the poolmetric function were given up: see the queue",
		queue.MetricApproximateNumberOfMessagesVisible(&awscloudwatch.MetricOptions{Period: n.period(), Statistic: jsii.String("Maximum")}),
		atLeast, 1, 1, isFine})
}

func (p *Pool) alarms() []alarm {
	name, props := p.props.Name, p.nodes.props
	full := []alarm{
		{name + "-utilization", fmt.Sprintf("Pool %s: %v %% of the node IDs are in use; a deploy may not find enough", name, props.UtilizationAlarm),
			p.gauge("Utilization", "Maximum"), atLeast, props.UtilizationAlarm, 3, ignore},
		// Not Utilization: the node IDs of crashed tasks may be reserved for hours, and are not held meanwhile.
		{name + "-exhausted", fmt.Sprintf("Pool %s: no node ID can be claimed; new tasks cannot start", name),
			p.gauge("Claimable", "Minimum"), below, 1, 1, ignore},
		{name + "-running-out", fmt.Sprintf("Pool %s: every node ID will be held in %v if it goes on like this", name, props.ExhaustionAlarm),
			p.timeToExhaustion(), below, props.ExhaustionAlarm.Minutes(), props.exhaustionPeriods(), ignore},
	}
	// Invariant: no alarm stays on while all is well. The only node ID of a pool, as of a leader, is held by a healthy holder.
	if p.props.usable() == 1 {
		full = nil
	}
	share := ""
	if p.props.Expect > 0 {
		share = " that are held at once"
	}
	return append(full, []alarm{
		{name + "-corrupt", fmt.Sprintf("Pool %s: someone else has written to leases; leave the items alone and see nodelease doctor", name),
			p.gauge("Corrupt", "Maximum"), atLeast, 1, 1, ignore},
		{name + "-stuck", fmt.Sprintf("Pool %s: a clock that was ahead has reserved node IDs for hours", name),
			p.gauge("Stuck", "Maximum"), atLeast, 1, 3, ignore},
		// After an outage, the reaper's brake normally lasts a minute or two, less than the five periods.
		{name + "-braked", fmt.Sprintf("Pool %s: so many leases expired at once that the reaper frees none yet", name),
			p.gauge("Braked", "Maximum"), atLeast, 1, 5, ignore},
		// Within five periods the reaper frees the node ID of a task that died. If this many node IDs stay expired, a
		// fleet is crashing or cannot renew.
		// Invariant: the alarm of a fleet that crashes can go off. A share of all node IDs may be more than its tasks hold.
		{name + "-expired", fmt.Sprintf("Pool %s: %v %% of the node IDs%s have a lease that expired: tasks crash, or cannot renew", name, props.ExpiredAlarm, share),
			p.gauge("Expired", "Minimum"), atLeast, math.Max(1, math.Ceil(float64(p.props.expected())*props.ExpiredAlarm/100)), 5, ignore},
		{name + "-no-data", fmt.Sprintf("Pool %s: it is no longer measured, so that no other alarm of the pool can go off", name),
			p.gauge("Capacity", "SampleCount"), below, 1, 5, isGap},
	}...)
}

// exhaustionPeriods returns for how many measurements in a row the time to exhaustion must be below ExhaustionAlarm. A rolling deploy fills the
// pool up for a few minutes, which is no reason to wake anyone, so there are ten. There are fewer if ten would take more than half of
// ExhaustionAlarm: the alarm must go off before the pool is full, since a full pool no longer fills up.
func (p Props) exhaustionPeriods() float64 {
	return float64(max(1, min(10, p.ExhaustionAlarm/(2*p.Every))))
}

func functionAlarms(name string, f awslambda.Function, period awscdk.Duration) []alarm {
	sum := &awscloudwatch.MetricOptions{Statistic: jsii.String("Sum"), Period: period}
	return []alarm{
		{name + "-errors", "The " + name + " function fails: see its log", f.MetricErrors(sum), atLeast, 1, 1, isFine},
		{name + "-throttles", "Lambda turns the " + name + " function away: the account's concurrency is used up", f.MetricThrottles(sum), atLeast, 1, 3, isFine},
	}
}

func (n *NodePool) addAlarm(a alarm) {
	al := awscloudwatch.NewAlarm(n, jsii.String(a.id), &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(a.why),
		Metric:             a.metric,
		ComparisonOperator: a.compare,
		Threshold:          jsii.Number(a.threshold),
		EvaluationPeriods:  jsii.Number(a.periods),
		TreatMissingData:   a.missing,
	})
	action := awscloudwatchactions.NewSnsAction(n.topic)
	al.AddAlarmAction(action)
	al.AddOkAction(action)
	if a.missing == isGap {
		al.AddInsufficientDataAction(action)
	}
}
