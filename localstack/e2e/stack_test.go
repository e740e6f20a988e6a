package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// stack is the deployed stack, as CloudFormation lists it.
type stack struct {
	config   aws.Config
	endpoint string
	physical map[string]string // type and logical ID → physical ID
	store    lease.Store
}

func openStack(t *testing.T, endpoint, name string) *stack {
	t.Helper()
	s := &stack{endpoint: endpoint, physical: map[string]string{}, config: aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}}
	out, err := cloudformation.NewFromConfig(s.config).DescribeStackResources(t.Context(), &cloudformation.DescribeStackResourcesInput{
		StackName: &name,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out.StackResources {
		s.physical[*r.ResourceType+" "+*r.LogicalResourceId] = aws.ToString(r.PhysicalResourceId)
	}
	s.store = lease.NewDynamoDB(dynamodb.NewFromConfig(s.config), s.find(t, "AWS::DynamoDB::GlobalTable", "Table"))
	return s
}

// find returns the physical ID of the resource that has the given type and whose logical ID contains the text.
func (s *stack) find(t *testing.T, kind, text string) string {
	t.Helper()
	for id, physical := range s.physical {
		if strings.HasPrefix(id, kind+" ") && strings.Contains(id, text) {
			return physical
		}
	}
	t.Fatalf("the stack has no %s with %q in its name: %v", kind, text, s.physical)
	return ""
}

func (s *stack) table(t *testing.T) string { return s.find(t, "AWS::DynamoDB::GlobalTable", "Table") }

func (s *stack) wantCapacity(t *testing.T, want int) {
	t.Helper()
	stats, err := leasepool.Open(s.store, poolName).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Capacity != want || stats.Pool.Size != want {
		t.Fatalf("the pool is %+v, want %d node IDs", stats, want)
	}
}

func (s *stack) invoke(t *testing.T, function string, event any) {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	out, err := lambda.NewFromConfig(s.config).Invoke(t.Context(), &lambda.InvokeInput{
		FunctionName: aws.String(s.find(t, "AWS::Lambda::Function", function)), Payload: payload,
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.FunctionError != nil {
		t.Fatalf("%s fails: %s", function, out.Payload)
	}
}

// wantMetric waits until the value is among the pool's newest datapoints.
func (s *stack) wantMetric(t *testing.T, name string, want float64) {
	t.Helper()
	client := cloudwatch.NewFromConfig(s.config)
	eventually(t, fmt.Sprintf("CloudWatch has %s = %v", name, want), func() (bool, string) {
		out, err := client.GetMetricStatistics(t.Context(), &cloudwatch.GetMetricStatisticsInput{
			Namespace: aws.String("Nodelease"), MetricName: &name,
			Dimensions: []cwtypes.Dimension{{Name: aws.String("Table"), Value: aws.String(s.table(t))}, {Name: aws.String("Pool"), Value: aws.String(poolName)}},
			StartTime:  aws.Time(time.Now().Add(-5 * time.Minute)), EndTime: aws.Time(time.Now().Add(time.Minute)),
			Period: aws.Int32(60), Statistics: []cwtypes.Statistic{cwtypes.StatisticMaximum},
		})
		if err != nil {
			return false, err.Error()
		}
		for _, d := range out.Datapoints {
			if *d.Maximum == want {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d datapoints", len(out.Datapoints))
	})
}

// subscribe sends all alarm messages from now on to a new queue.
func (s *stack) subscribe(t *testing.T) (queue string) {
	t.Helper()
	client := sqs.NewFromConfig(s.config)
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("alarms")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteQueue(context.Background(), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl}); err != nil {
			t.Error(err)
		}
	})
	attributes, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sns.NewFromConfig(s.config).Subscribe(t.Context(), &sns.SubscribeInput{
		TopicArn: aws.String(s.find(t, "AWS::SNS::Topic", "Alarms")), Protocol: aws.String("sqs"), Endpoint: aws.String(attributes.Attributes["QueueArn"]),
	}); err != nil {
		t.Fatal(err)
	}
	return *made.QueueUrl
}

// wantAlarm waits until the alarm's message has come through the topic into the queue.
func (s *stack) wantAlarm(t *testing.T, name, queue string) {
	t.Helper()
	alarm := s.find(t, "AWS::CloudWatch::Alarm", poolName+name)
	client := sqs.NewFromConfig(s.config)
	var others []string
	eventually(t, "the alarm "+name+" has reached the queue", func() (bool, string) {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10})
		if err != nil {
			return false, err.Error()
		}
		for _, m := range out.Messages {
			var envelope struct{ Message string }
			var message struct{ AlarmName, NewStateValue string }
			if json.Unmarshal([]byte(*m.Body), &envelope) == nil && json.Unmarshal([]byte(envelope.Message), &message) == nil {
				if message.AlarmName == alarm && message.NewStateValue == "ALARM" {
					return true, ""
				}
				others = append(others, message.AlarmName+" "+message.NewStateValue)
			}
		}
		return false, fmt.Sprintf("messages of %v", others)
	})
}

// wantReaped waits until the node ID has no holder. Its version must still be the dead task's, since nobody claimed it in
// between.
func (s *stack) wantReaped(t *testing.T, old lease.Lease) {
	t.Helper()
	eventually(t, fmt.Sprintf("the scheduled reaper has freed node ID %d", old.NodeID), func() (bool, string) {
		now, err := s.store.Get(t.Context(), poolName, old.NodeID)
		if err != nil {
			return false, err.Error()
		}
		if now.Version != old.Version {
			t.Fatalf("node ID %d was claimed: %+v", old.NodeID, now)
		}
		return now.Holder == "", fmt.Sprintf("%+v", now)
	})
}
