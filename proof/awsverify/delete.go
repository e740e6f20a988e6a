package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// deletions is how often the deletion of a stack is requested. CloudFormation does not treat DELETE_FAILED as final: the next request retries the
// remaining resources.
const deletions = 3

// deleteStack deletes one stack, by its ID, because another stack may have the same name by now.
func (a *account) deleteStack(ctx context.Context, id, run string, out io.Writer) error {
	s, err := a.settled(ctx, id) // a stack that is being changed cannot be deleted
	if err != nil && !gone(err) {
		return err
	}
	var retain []string
	for try := 1; ; try++ {
		// A deletion that another process began, such as a run that was killed meanwhile, may
		// have ended while we waited. A deleted stack must not be deleted again: LocalStack
		// would go through all resources once more, and fail at those that are gone.
		if gone(err) || s.StackStatus == cfntypes.StackStatusDeleteComplete {
			return nil
		}
		// INVARIANT: a resource is deleted only if the run's tag was read from this resource itself.
		if runOf(s.Tags) != run {
			return fmt.Errorf("the stack %s does not carry the tag %s=%s: it stays", id, tag, run)
		}
		if try > deletions {
			return fmt.Errorf("the stack %s ended as %s: %s", id, s.StackStatus, a.undeleted(ctx, s))
		}
		// INVARIANT: CloudFormation no longer tracks resources that it is told to retain. So the last try retains only resources that no longer
		// exist.
		if try == deletions && s.StackStatus == cfntypes.StackStatusDeleteFailed { // CloudFormation accepts RetainResources only in this state
			if retain, err = a.goneResources(ctx, id, out); err != nil {
				return err
			}
		}
		if err := a.emptyBuckets(ctx, id, run, out); err != nil {
			return err
		}
		if _, err := a.cfn.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &id, RetainResources: retain}); err != nil {
			return fmt.Errorf("deleting the stack %s: %w", id, err)
		}
		if s, err = a.settled(ctx, id); err != nil && !gone(err) {
			return err
		}
	}
}

// goneResources returns the logical IDs of the resources that CloudFormation could not delete although they no longer exist.
func (a *account) goneResources(ctx context.Context, stack string, out io.Writer) (ids []string, err error) {
	failed, err := a.failedResources(ctx, stack)
	for _, r := range failed {
		if a.isGone(ctx, aws.ToString(r.ResourceType), aws.ToString(r.PhysicalResourceId)) {
			fmt.Fprintln(out, "step: forgetting, since it is gone,", describe(r))
			ids = append(ids, aws.ToString(r.LogicalResourceId))
		}
	}
	return ids, err
}

// isGone reports whether a resource is known not to exist. It returns false for kinds of resources that it cannot look up, and if it has no
// permission to look up the resource.
func (a *account) isGone(ctx context.Context, kind, id string) bool {
	var err error
	switch {
	case kind == "Custom::NodeleasePool":
		return true // the resource is nothing but items of the table, and the bootstrap function's Delete does nothing
	case id == "":
		return false
	case kind == "AWS::DynamoDB::GlobalTable":
		_, err = a.dynamo.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &id})
	case kind == "AWS::S3::Bucket":
		_, err = a.s3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &id})
	case kind == "AWS::SQS::Queue":
		_, err = a.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &id})
	}
	switch code(err) {
	case "ResourceNotFoundException", "NotFound", "NoSuchBucket", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist":
		return true
	}
	return false
}

func (a *account) failedResources(ctx context.Context, stack string) (failed []cfntypes.StackResource, err error) {
	got, err := a.cfn.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &stack})
	if err != nil {
		return nil, fmt.Errorf("listing the resources of the stack %s: %w", stack, err)
	}
	for _, r := range got.StackResources {
		if r.ResourceStatus == cfntypes.ResourceStatusDeleteFailed {
			failed = append(failed, r)
		}
	}
	return failed, nil
}

// undeleted lists the resources that a person has to check.
func (a *account) undeleted(ctx context.Context, s *cfntypes.Stack) string {
	says := []string{aws.ToString(s.StackStatusReason)}
	failed, err := a.failedResources(ctx, aws.ToString(s.StackId))
	if err != nil {
		says = append(says, err.Error())
	}
	for _, r := range failed {
		says = append(says, describe(r)+": "+aws.ToString(r.ResourceStatusReason))
	}
	return strings.Join(says, "; ")
}

func describe(r cfntypes.StackResource) string {
	return fmt.Sprintf("%s (%s %s)", aws.ToString(r.LogicalResourceId), aws.ToString(r.ResourceType), aws.ToString(r.PhysicalResourceId))
}
