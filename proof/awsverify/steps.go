package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// patience is how long the run waits for something that depends on a schedule, an alarm or IAM.
const patience = 10 * time.Minute

// eventually calls done until it returns no error. If the time within passes first, eventually returns the last error.
func (r *run) eventually(ctx context.Context, within time.Duration, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if pause := r.account.pause(ctx); pause != nil {
			return fmt.Errorf("not within %s: %w", within, err)
		}
	}
}

// denied reports whether IAM refused a request.
func denied(err error) bool { return strings.Contains(code(err), "AccessDenied") }

func (r *run) inspect(ctx context.Context) error {
	r.judge("bucket-tag", r.bucketTag(ctx), tag+"="+r.options.run)
	r.judge("table-tag", r.tableTag(ctx), tag+"="+r.options.run)
	item, err := r.store.PoolItem(ctx, poolName)
	if err == nil && item.Size != poolSize {
		err = fmt.Errorf("the pool has the size %d, want %d", item.Size, poolSize)
	}
	r.judge("seed", err, fmt.Sprintf("pool %s with %d node IDs", poolName, poolSize))
	name := r.outputs["NodesDashboard"]
	_, err = r.account.watch.GetDashboard(ctx, &cloudwatch.GetDashboardInput{DashboardName: &name})
	r.judge("dashboard", err, name)
	return nil
}

func (r *run) tableTag(ctx context.Context) error {
	table, err := r.account.dynamo.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &r.table})
	if err != nil {
		return err
	}
	tags, err := r.account.dynamo.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: table.Table.TableArn})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(tags.Tags, func(t dynamodbtypes.Tag) bool { return *t.Key == tag && *t.Value == r.options.run }) {
		return fmt.Errorf("the table %s has the tags %v", r.table, tags.Tags)
	}
	return nil
}

func (r *run) bucketTag(ctx context.Context) error {
	bucket, err := r.account.s3.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &r.bucket})
	if err != nil {
		return err
	}
	for _, t := range bucket.TagSet {
		if *t.Key == tag && *t.Value == r.options.run {
			return nil
		}
	}
	return fmt.Errorf("the bucket %s does not carry the tag", r.bucket)
}

// assumeRole assumes the task role, and waits until the role's permissions take effect in DynamoDB, which takes a few seconds. Every refusal after
// that is a failure.
func (r *run) assumeRole(ctx context.Context) error {
	arn := r.outputs["VerifyRole"]
	return r.eventually(ctx, patience, func(ctx context.Context) error {
		got, err := r.account.sts.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &arn, RoleSessionName: aws.String("nodelease-verify"), DurationSeconds: aws.Int32(3600)})
		if err != nil {
			return err
		}
		c := got.Credentials
		r.role = r.account.cfg.Copy()
		r.role.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
		client := dynamodb.NewFromConfig(r.role)
		for range 3 {
			for group := range 2 {
				if _, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.table, Key: key(poolName+"#"+fmt.Sprint(group), 0)}); err != nil {
					return err
				}
			}
			if _, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &r.table}); err != nil {
				return err
			}
		}
		return nil
	})
}

func key(group string, nodeID int) map[string]dynamodbtypes.AttributeValue {
	return map[string]dynamodbtypes.AttributeValue{
		"pool_group": &dynamodbtypes.AttributeValueMemberS{Value: group},
		"node_id":    &dynamodbtypes.AttributeValueMemberN{Value: fmt.Sprint(nodeID)},
	}
}

// claim starts one task for each node ID, and one more task, which must be refused.
func (r *run) claim(ctx context.Context) error {
	for range poolSize {
		t, err := r.startTask(ctx)
		if err == nil {
			err = r.makeIDs(t)
		}
		if err != nil {
			r.judge("claim", err, "")
			return err
		}
	}
	t, err := r.startTask(ctx)
	switch {
	case err == nil:
		err = fmt.Errorf("one task more than there are node IDs got %d", t.line.NodeID)
	case t != nil && t.line.Full:
		err = nil
	}
	r.judge("claim", err, fmt.Sprintf("%d tasks, %d IDs, none twice; one more task was refused", len(r.tasks), len(r.ids)))
	return nil
}

// makeIDs makes a task make IDs. It returns an error if one of these IDs was made before, or if another task has the same node ID.
func (r *run) makeIDs(t *task) error {
	if err := t.ask("ids"); err != nil {
		return err
	}
	for _, other := range r.tasks {
		if other != t && other.line.NodeID == t.line.NodeID {
			return fmt.Errorf("node ID %d has two holders", t.line.NodeID)
		}
	}
	for _, id := range t.line.IDs {
		if by, twice := r.ids[id]; twice {
			return fmt.Errorf("the ID %v was made by %d and by %d", id, by, t.line.NodeID)
		}
		r.ids[id] = t.line.NodeID
	}
	return nil
}

// leadingKeys sends, with the task role, requests that agents never make.
func (r *run) leadingKeys(ctx context.Context) error {
	client := dynamodb.NewFromConfig(r.role)
	foreign, own := key("another#0", 0), key(poolName+"#255", 65535) // neither exists
	set := func(k map[string]dynamodbtypes.AttributeValue) error {
		_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &r.table, Key: k, UpdateExpression: aws.String("SET holder = :h"),
			ExpressionAttributeValues: map[string]dynamodbtypes.AttributeValue{":h": &dynamodbtypes.AttributeValueMemberS{Value: "x"}},
			ConditionExpression:       aws.String("attribute_exists(pool_group)")})
		return err
	}
	requests := map[string]func() error{
		"GetItem of another pool": func() error {
			_, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &r.table, Key: foreign})
			return err
		},
		"Query of another pool": func() error {
			_, err := client.Query(ctx, &dynamodb.QueryInput{TableName: &r.table, KeyConditionExpression: aws.String("pool_group = :g"),
				ExpressionAttributeValues: map[string]dynamodbtypes.AttributeValue{":g": &dynamodbtypes.AttributeValueMemberS{Value: "another#0"}}})
			return err
		},
		"UpdateItem in another pool":        func() error { return set(foreign) },
		"UpdateItem in the reaper's memory": func() error { return set(key(poolName+"#reaper", 0)) },
		"UpdateItem of a hint card":         func() error { return set(key(poolName+"#card#0", 0)) },
		"DeleteItem": func() error {
			_, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &r.table, Key: own})
			return err
		},
		"PutItem": func() error {
			_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &r.table, Item: own, ConditionExpression: aws.String("attribute_exists(pool_group)")})
			return err
		},
		"Scan": func() error {
			_, err := client.Scan(ctx, &dynamodb.ScanInput{TableName: &r.table, Limit: aws.Int32(1)})
			return err
		},
	}
	var errs []error
	names := slices.Sorted(maps.Keys(requests))
	for _, name := range names {
		if err := requests[name](); !denied(err) {
			errs = append(errs, fmt.Errorf("%s was not refused: %w", name, errors.Join(err, errors.New("want AccessDenied"))))
		}
	}
	r.judge("leading-keys", errors.Join(errs...), "refused: "+strings.Join(names, ", "))
	return nil
}

// watchAlarms waits for the metrics of the scheduled functions in CloudWatch while every node ID is held.
func (r *run) watchAlarms(ctx context.Context) error {
	r.judge("metrics", r.eventually(ctx, patience, func(ctx context.Context) error { return r.datapoint(ctx, "Utilization", 100) }), "Utilization = 100")
	r.judge("alarm", r.eventually(ctx, patience, r.alarmArrived), "ALARM, in the queue")
	r.judge("no-data", r.eventually(ctx, patience, func(ctx context.Context) error {
		return r.alarm(ctx, "nodata", func(a cwtypes.MetricAlarm) bool { return a.StateValue == cwtypes.StateValueOk })
	}), "OK")
	within := patience
	if r.account.emulator {
		within = 5 * time.Second // waiting longer is useless: the emulator's scheduler ignores alarms with metric math
	}
	evaluated := func(a cwtypes.MetricAlarm) bool { return a.StateValue != cwtypes.StateValueInsufficientData }
	r.judge("metric-math", r.eventually(ctx, within, func(ctx context.Context) error {
		return errors.Join(r.alarm(ctx, "runningout", evaluated), r.alarm(ctx, "tablethrottled", evaluated))
	}), "both have a state")
	return nil
}

func (r *run) datapoint(ctx context.Context, name string, want float64) error {
	got, err := r.account.watch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: aws.String("Nodelease"), MetricName: &name,
		Dimensions: []cwtypes.Dimension{{Name: aws.String("Table"), Value: &r.table}, {Name: aws.String("Pool"), Value: aws.String(poolName)}},
		StartTime:  aws.Time(r.now().Add(-5 * time.Minute)), EndTime: aws.Time(r.now().Add(time.Minute)),
		Period: aws.Int32(60), Statistics: []cwtypes.Statistic{cwtypes.StatisticMaximum},
	})
	if err != nil {
		return err
	}
	for _, d := range got.Datapoints {
		if *d.Maximum == want {
			return nil
		}
	}
	return fmt.Errorf("%d datapoints of %s, none is %v", len(got.Datapoints), name, want)
}

// alarm returns an error unless want accepts the alarm whose logical ID contains the text.
func (r *run) alarm(ctx context.Context, text string, want func(cwtypes.MetricAlarm) bool) error {
	name, err := r.alarmName(ctx, text)
	if err != nil {
		return err
	}
	got, err := r.account.watch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{name}})
	if err != nil {
		return err
	}
	if len(got.MetricAlarms) != 1 || !want(got.MetricAlarms[0]) {
		return fmt.Errorf("the alarm %s is %s", name, stateOf(got.MetricAlarms))
	}
	return nil
}

func stateOf(alarms []cwtypes.MetricAlarm) string {
	if len(alarms) != 1 {
		return fmt.Sprintf("there %d times", len(alarms))
	}
	return fmt.Sprintf("%s (%s)", alarms[0].StateValue, aws.ToString(alarms[0].StateReason))
}

func (r *run) alarmName(ctx context.Context, text string) (string, error) {
	resources, err := r.account.cfn.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &r.stack})
	if err != nil {
		return "", err
	}
	for _, s := range resources.StackResources {
		if aws.ToString(s.ResourceType) == "AWS::CloudWatch::Alarm" && strings.Contains(aws.ToString(s.LogicalResourceId), text) {
			return aws.ToString(s.PhysicalResourceId), nil
		}
	}
	return "", fmt.Errorf("the stack has no alarm with %s in its logical ID", text)
}

// alarmArrived returns an error unless the queue contains a message from the alarm "exhausted".
func (r *run) alarmArrived(ctx context.Context) error {
	name, err := r.alarmName(ctx, "exhausted")
	if err != nil {
		return err
	}
	url := r.outputs["VerifyQueue"]
	got, err := r.account.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
	if err != nil {
		return err
	}
	for _, m := range got.Messages {
		var envelope struct{ Message string }
		var message struct{ AlarmName, NewStateValue string }
		if json.Unmarshal([]byte(aws.ToString(m.Body)), &envelope) == nil && json.Unmarshal([]byte(envelope.Message), &message) == nil &&
			message.AlarmName == name && message.NewStateValue == "ALARM" {
			return nil
		}
	}
	return errors.New("the queue has no message of the alarm " + name)
}
