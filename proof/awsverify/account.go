package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// tag is the key of the tag on everything that a run creates. The tag's value is the run's name.
const tag = "nodelease-verify"

// account is the account and Region in which a run takes place.
type account struct {
	id, region, caller string
	emulator           bool
	cfg                aws.Config

	cfn    *cloudformation.Client
	s3     *s3.Client
	dynamo *dynamodb.Client
	watch  *cloudwatch.Client
	sqs    *sqs.Client
	sts    *sts.Client
}

// emulatorAccount is the account number that LocalStack uses. No account of AWS has it.
const emulatorAccount = "000000000000"

func openAccount(ctx context.Context) (*account, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS Region: set AWS_REGION")
	}
	a := &account{
		region: cfg.Region, cfg: cfg,
		cfn: cloudformation.NewFromConfig(cfg), dynamo: dynamodb.NewFromConfig(cfg), watch: cloudwatch.NewFromConfig(cfg),
		sqs: sqs.NewFromConfig(cfg), sts: sts.NewFromConfig(cfg),
	}
	who, err := a.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return nil, fmt.Errorf("no credentials that AWS knows (AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY): %w", err)
	}
	a.id, a.caller = aws.ToString(who.Account), aws.ToString(who.Arn)
	a.emulator = a.id == emulatorAccount
	a.s3 = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = a.emulator }) // otherwise requests would go to the bucket's host name at AWS
	return a, nil
}

func (a *account) emulatorNote() string {
	if a.emulator {
		return " (an emulator: checks that it cannot show are reported as not possible here)"
	}
	return ""
}

// architecture returns the architecture of the functions: want, if it is set, and otherwise, on an emulator, that of this machine,
// which runs them.
func (a *account) architecture(want string) string {
	switch {
	case want != "":
		return want
	case a.emulator && runtime.GOARCH == "amd64":
		return "x86_64"
	}
	return "arm64"
}

func newRunName(now time.Time) string {
	random := make([]byte, 2)
	_, _ = rand.Read(random) // never fails
	return now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(random)
}

var runName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// checkRunName refuses names that cannot be part of a stack's name.
func checkRunName(name string) error {
	if !runName.MatchString(name) {
		return fmt.Errorf("the run's name is %q: use 1 to 64 letters, digits and hyphens", name)
	}
	return nil
}
