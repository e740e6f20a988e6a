package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// run is one run of all checks.
type run struct {
	account  *account
	template *template
	options  options
	out      io.Writer
	taskLog  io.Writer
	arch     string
	now      func() time.Time
	began    time.Time
	results  map[string]result

	bucket, stack string // the zips' bucket, and the ID of the pool's stack
	outputs       map[string]string
	table         string
	role          aws.Config // with the task role's credentials
	store         lease.Store
	tasks         []*task
	held          map[int]bool
	ids           map[snowflake.ID]int
	called        map[string]int
	refused       []string // the requests that AWS refused to the task role
}

func newRun(a *account, t *template, o options, out io.Writer) *run {
	return &run{
		account: a, template: t, options: o, out: out, taskLog: io.Discard, arch: a.architecture(o.arch), now: time.Now, began: time.Now(),
		results: map[string]result{}, held: map[int]bool{}, ids: map[snowflake.ID]int{}, called: map[string]int{},
	}
}

// step is one step of a run. It records the results of its checks. If do returns an error, the run ends, because later steps depend on this step.
type step struct {
	name string
	do   func(*run, context.Context) error
}

var allSteps = []step{
	{"zips", (*run).makeBucket},
	{"upload", (*run).upload},
	{"deploy", (*run).deploy},
	{"inspect", (*run).inspect},
	{"role", (*run).assumeRole},
	{"claim", (*run).claim},
	{"keys", (*run).leadingKeys},
	{"watch", (*run).watchAlarms},
	{"kill", (*run).killOne},
	{"grow", (*run).grow},
	{"freezes", (*run).measureFreezes},
	{"release", (*run).release},
	{"rename", (*run).rename},
}

// do carries out the steps in order, until one of them fails.
func (r *run) do(ctx context.Context, steps []step) error {
	for _, s := range steps {
		fmt.Fprintln(r.out, "step:", s.name)
		if err := s.do(r, ctx); err != nil {
			return fmt.Errorf("step %s: %w", s.name, err)
		}
	}
	return nil
}

// takeAway deletes everything that the run has created, and checks that all of it is gone.
func (r *run) takeAway(ctx context.Context) {
	for _, t := range r.tasks {
		t.kill()
	}
	err := r.account.clean(ctx, r.options.run, r.out)
	if err == nil {
		err = r.leftovers(ctx)
	}
	r.judge("gone", err, "both stacks, the table and the bucket")
}

// leftovers returns an error if resources of the run's stacks still exist. It looks for them by name.
func (r *run) leftovers(ctx context.Context) error {
	var errs []error
	if stacks, err := r.account.stacks(ctx, r.options.run); err != nil || len(stacks) > 0 {
		errs = append(errs, err, fmt.Errorf("%d stacks still carry the tag", len(stacks)))
	}
	if r.table != "" {
		if err := r.account.tableGone(ctx, r.table); err != nil {
			errs = append(errs, err)
		}
	}
	if r.bucket != "" {
		if _, err := r.account.s3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &r.bucket}); code(err) != "NotFound" && code(err) != "NoSuchBucket" {
			errs = append(errs, fmt.Errorf("the bucket %s: %w", r.bucket, errors.Join(err, errors.New("it should be gone"))))
		}
	}
	return errors.Join(errs...)
}

// makeBucket makes the bucket for the zips. The bucket is in a stack, so that it has the tag from its first moment on.
func (r *run) makeBucket(ctx context.Context) error {
	s, err := r.account.createStack(ctx, stackPrefix+r.options.run+zipsSuffix, zipsStack(r.options.run), r.options.run, nil)
	if err != nil {
		return err
	}
	r.bucket = outputsOf(s)["Bucket"]
	if r.bucket == "" {
		return fmt.Errorf("the stack %s has no bucket", aws.ToString(s.StackId))
	}
	return nil
}

func (r *run) upload(ctx context.Context) error {
	for _, f := range functions {
		name := r.arch + "/" + f + ".zip"
		if err := r.uploadFile(ctx, name); err != nil {
			return fmt.Errorf("uploading %s: %w", name, err)
		}
	}
	return r.uploadClocks(ctx)
}

func (r *run) uploadFile(ctx context.Context, name string) error {
	file, err := os.Open(filepath.Join(r.template.dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = r.account.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &r.bucket, Key: &name, Body: file})
	return err
}

func (r *run) deploy(ctx context.Context) error {
	began := r.now()
	s, err := r.account.createStack(ctx, stackPrefix+r.options.run, r.template.body, r.options.run, r.parameters(poolName, poolSize))
	r.judge("deploy", err, fmt.Sprintf("CREATE_COMPLETE after %s", r.now().Sub(began).Round(time.Second)))
	if err != nil {
		return err
	}
	r.stack, r.outputs = aws.ToString(s.StackId), outputsOf(s)
	r.table = r.outputs["NodesTableName"]
	r.store = lease.NewDynamoDB(r.account.dynamo, r.table)
	return nil
}

func (r *run) parameters(pool string, size int) map[string]string {
	return map[string]string{
		"PoolName": pool, "PoolSize": fmt.Sprint(size), "ZipBucket": r.bucket, "Architecture": r.arch, "DeletionProtection": "false",
	}
}

// createStack creates a stack with the run's tag, and waits for it.
//
// INVARIANT: everything that a run creates gets the run's tag in the request that creates it, so that -clean finds everything, whenever the run
// is killed.
func (a *account) createStack(ctx context.Context, name, body, run string, parameters map[string]string) (*cfntypes.Stack, error) {
	made, err := a.cfn.CreateStack(ctx, &cloudformation.CreateStackInput{
		StackName: &name, TemplateBody: &body, Parameters: parameterList(parameters),
		Tags:         []cfntypes.Tag{{Key: aws.String(tag), Value: &run}},
		Capabilities: []cfntypes.Capability{cfntypes.CapabilityCapabilityIam},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the stack %s: %w", name, err)
	}
	return a.wantStatus(ctx, aws.ToString(made.StackId), cfntypes.StackStatusCreateComplete)
}

// updateStack changes the parameters of the pool's stack, and waits until the change has ended.
func (r *run) updateStack(ctx context.Context, parameters map[string]string) (*cfntypes.Stack, error) {
	if _, err := r.account.cfn.UpdateStack(ctx, &cloudformation.UpdateStackInput{
		StackName: &r.stack, TemplateBody: &r.template.body, Parameters: parameterList(parameters),
		Tags:         []cfntypes.Tag{{Key: aws.String(tag), Value: &r.options.run}}, // otherwise the stack would lose its tag
		Capabilities: []cfntypes.Capability{cfntypes.CapabilityCapabilityIam},
	}); err != nil {
		return nil, fmt.Errorf("updating the stack: %w", err)
	}
	return r.account.settled(ctx, r.stack)
}

func (a *account) wantStatus(ctx context.Context, id string, want cfntypes.StackStatus) (*cfntypes.Stack, error) {
	s, err := a.settled(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.StackStatus != want {
		return nil, fmt.Errorf("the stack %s ended as %s: %s", id, s.StackStatus, a.reasons(ctx, id))
	}
	return s, nil
}

// reasons returns the reasons for failures in the stack's events.
func (a *account) reasons(ctx context.Context, id string) string {
	events, err := a.cfn.DescribeStackEvents(ctx, &cloudformation.DescribeStackEventsInput{StackName: &id})
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, e := range events.StackEvents {
		if strings.HasSuffix(string(e.ResourceStatus), "_FAILED") {
			found = append(found, aws.ToString(e.LogicalResourceId)+": "+aws.ToString(e.ResourceStatusReason))
		}
	}
	return strings.Join(found, "; ")
}

func parameterList(values map[string]string) (list []cfntypes.Parameter) {
	for k, v := range values {
		list = append(list, cfntypes.Parameter{ParameterKey: aws.String(k), ParameterValue: aws.String(v)})
	}
	return list
}

func outputsOf(s *cfntypes.Stack) map[string]string {
	outputs := map[string]string{}
	for _, o := range s.Outputs {
		outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return outputs
}
