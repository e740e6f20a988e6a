package nodepool

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"
)

// newTable makes the table. It must never get a TTL attribute: DynamoDB would delete expired leases, and with them each node ID's version and
// the end of its last span, after which the next holder has to begin.
func (n *NodePool) newTable() awsdynamodb.TableV2 {
	p := n.props
	props := &awsdynamodb.TablePropsV2{
		PartitionKey:                     &awsdynamodb.Attribute{Name: jsii.String("pool_group"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:                          &awsdynamodb.Attribute{Name: jsii.String("node_id"), Type: awsdynamodb.AttributeType_NUMBER},
		Billing:                          awsdynamodb.Billing_OnDemand(nil),
		DeletionProtection:               jsii.Bool(!p.AllowDeletion),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		RemovalPolicy:                    p.RemovalPolicy,
	}
	if writes := p.warmWrites(); writes > coldWrites {
		props.WarmThroughput = &awsdynamodb.WarmThroughput{WriteUnitsPerSecond: jsii.Number(writes)}
	}
	if p.Key != nil {
		keys := map[string]*string{}
		for region, arn := range p.ReplicaKeys {
			keys[region] = jsii.String(arn)
		}
		props.Encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.Key, &keys)
	}
	if p.TableName != "" {
		props.TableName = jsii.String(p.TableName)
	}
	if len(p.Replicas) > 0 {
		var replicas []*awsdynamodb.ReplicaTableProps
		for _, region := range p.Replicas {
			replicas = append(replicas, &awsdynamodb.ReplicaTableProps{Region: jsii.String(region)})
		}
		props.Replicas = &replicas
		props.MultiRegionConsistency = p.Consistency
		if p.Witness != "" {
			props.WitnessRegion = jsii.String(p.Witness)
		}
	}
	table := awsdynamodb.NewTableV2(n, jsii.String("Table"), props)
	n.problems.addLater(func() error { return checkReplicas(table) })
	return table
}

// coldWrites is how many writes a second a new on-demand table takes, on four partitions of 1,000 each.
const coldWrites = 4000

// warmWrites returns how many writes a second the table must be able to take for the holders that the pools expect. A holder renews every 5 s;
// a fleet that starts within 10 s writes twice for each holder in that time, which is the same rate. Groups of 256 are spread unevenly over the
// partitions, so that the fullest partition limits the table to three fifths of its capacity. Capacity that the table has gained since is not
// counted, because a new table would not have it.
func (p Props) warmWrites() int {
	expect := 0
	for _, pool := range p.Pools {
		expect += pool.Expect
	}
	return (expect + 2) / 3 // expect ÷ 5 ÷ 3/5
}

// checkReplicas checks the finished table, since replicas can be added to it after New has checked Props.
func checkReplicas(table awsdynamodb.TableV2) error {
	resource := table.Node().DefaultChild().(awsdynamodb.CfnGlobalTable)
	replicas, _ := awscdk.Stack_Of(table).Resolve(resource.Replicas()).([]any)
	strong := resource.MultiRegionConsistency() != nil && *resource.MultiRegionConsistency() == string(awsdynamodb.MultiRegionConsistency_STRONG)
	if len(replicas) > 1 && !strong {
		return fmt.Errorf("the table has %d replicas with eventual consistency: %s", len(replicas), eventual)
	}
	return nil
}

// tableARNs returns the table's ARNs, in this Region and in those of the replicas. IAM is global, so a task that is moved to another Region
// after the loss of this one can continue with the same role.
func (n *NodePool) tableARNs() *[]*string {
	if n.imported != nil {
		return jsii.Strings(n.imported.arns()...)
	}
	arns := []*string{n.table.TableArn()}
	for _, region := range n.props.Replicas {
		arns = append(arns, awscdk.Stack_Of(n).FormatArn(&awscdk.ArnComponents{
			Service:      jsii.String("dynamodb"),
			Region:       jsii.String(region),
			Resource:     jsii.String("table"),
			ResourceName: n.table.TableName(),
		}))
	}
	return &arns
}
