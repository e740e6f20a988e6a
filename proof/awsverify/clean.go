package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// stacks returns the existing stacks of a run: the pool's stack before the stack with the zips. If run is "", it returns the stacks of all
// runs.
//
// Both stacks get the tag in the request that creates them, and all other resources belong to these two stacks. So at no moment does anything
// exist that stacks does not find.
func (a *account) stacks(ctx context.Context, run string) (found []cfntypes.Stack, err error) {
	pages := cloudformation.NewDescribeStacksPaginator(a.cfn, &cloudformation.DescribeStacksInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing stacks: %w", err)
		}
		for _, s := range page.Stacks {
			if name := runOf(s.Tags); name != "" && (run == "" || name == run) && s.StackStatus != cfntypes.StackStatusDeleteComplete {
				found = append(found, s)
			}
		}
	}
	slices.SortStableFunc(found, func(x, y cfntypes.Stack) int { return zipsLast(x) - zipsLast(y) })
	return found, nil
}

func runOf(tags []cfntypes.Tag) string {
	for _, t := range tags {
		if aws.ToString(t.Key) == tag {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

func zipsLast(s cfntypes.Stack) int {
	if strings.HasSuffix(aws.ToString(s.StackName), zipsSuffix) {
		return 1
	}
	return 0
}

func (a *account) printLeft(ctx context.Context, out io.Writer) error {
	left, err := a.stacks(ctx, "")
	for _, s := range left {
		fmt.Fprintf(out, "%s  %s  %s  (make aws-verify CLEAN=%s)\n", runOf(s.Tags), aws.ToString(s.StackName), s.StackStatus, runOf(s.Tags))
	}
	if len(left) == 0 && err == nil {
		fmt.Fprintln(out, "no run left anything behind")
	}
	return err
}

// clean deletes everything with the run's tag.
func (a *account) clean(ctx context.Context, run string, out io.Writer) error {
	if err := checkRunName(run); err != nil {
		return err
	}
	left, err := a.stacks(ctx, run)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range left {
		fmt.Fprintln(out, "step: delete", aws.ToString(s.StackName))
		errs = append(errs, a.deleteStack(ctx, aws.ToString(s.StackId), run, out))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("parts of the run remain, and cost money: %w. Fix the cause, and try again: make aws-verify CLEAN=%s", err, run)
	}
	fmt.Fprintf(out, "%d stacks of the run %s are deleted\n", len(left), run)
	return nil
}

// emptyBuckets empties the buckets of a stack, because buckets with content cannot be deleted.
func (a *account) emptyBuckets(ctx context.Context, stack, run string, out io.Writer) error {
	resources, err := a.cfn.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &stack})
	if err != nil {
		return fmt.Errorf("listing the resources of the stack %s: %w", stack, err)
	}
	for _, r := range resources.StackResources {
		bucket := aws.ToString(r.PhysicalResourceId)
		if aws.ToString(r.ResourceType) != "AWS::S3::Bucket" || bucket == "" || r.ResourceStatus == cfntypes.ResourceStatusDeleteComplete {
			continue
		}
		if err := a.emptyBucket(ctx, bucket, run, out); err != nil {
			return err
		}
	}
	return nil
}

func (a *account) emptyBucket(ctx context.Context, bucket, run string, out io.Writer) error {
	tags, err := a.s3.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &bucket})
	if code(err) == "NoSuchBucket" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the tags of the bucket %s: %w", bucket, err)
	}
	// INVARIANT: see deleteStack.
	if !slices.ContainsFunc(tags.TagSet, func(t s3types.Tag) bool { return aws.ToString(t.Key) == tag && aws.ToString(t.Value) == run }) {
		return fmt.Errorf("the bucket %s does not carry the tag %s=%s: it is kept", bucket, tag, run)
	}
	fmt.Fprintln(out, "step: empty", bucket)
	pages := s3.NewListObjectsV2Paginator(a.s3, &s3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("listing the bucket %s: %w", bucket, err)
		}
		for _, o := range page.Contents {
			if _, err := a.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: o.Key}); err != nil {
				return fmt.Errorf("emptying the bucket %s: %w", bucket, err)
			}
		}
	}
	return nil
}

// settled waits until CloudFormation no longer changes the stack, and returns the stack. It calls CloudFormation until two answers in a row are
// the same, since at the first call, a request of a killed run may still be under way.
func (a *account) settled(ctx context.Context, id string) (*cfntypes.Stack, error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute) // a custom resource that never answers takes 30 minutes
	defer cancel()
	var before cfntypes.StackStatus
	for {
		got, err := a.cfn.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &id})
		if err != nil {
			return nil, fmt.Errorf("the stack %s: %w", id, err)
		}
		if len(got.Stacks) == 0 {
			return nil, fmt.Errorf("the stack %s is gone", id)
		}
		s := got.Stacks[0]
		if s.StackStatus == before && !strings.HasSuffix(string(before), "_IN_PROGRESS") {
			return &s, nil
		}
		before = s.StackStatus
		if err := a.pause(ctx); err != nil {
			return nil, fmt.Errorf("waiting for the stack %s: %w", id, err)
		}
	}
}

// pause waits between two checks of something that AWS does.
func (a *account) pause(ctx context.Context) error {
	wait := 5 * time.Second
	if a.emulator {
		wait = time.Second
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// gone reports whether an error shows that the stack no longer exists.
func gone(err error) bool {
	return err != nil && code(err) == "ValidationError" && strings.Contains(err.Error(), "does not exist")
}

// code returns the AWS code of an error, or "" if it has none.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
