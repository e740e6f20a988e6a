package main

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// sampleSuppressions are the suppressions of the sample service. The construct adds its own to its resources.
var sampleSuppressions = []struct{ path, rule, reason string }{
	{"Vpc/Resource", "AwsSolutions-VPC7", "A sample without any route to the internet; whether to add flow logs is for its users to decide."},
	{"Task/Resource", "AwsSolutions-ECS2", "The environment holds the names of the table and the pool, which are not secrets."},
	{"Task/ExecutionRole/DefaultPolicy/Resource", "AwsSolutions-IAM5", "ecr:GetAuthorizationToken knows no resources; CDK writes this statement."},
	{"LoadBalancer/Resource", "AwsSolutions-ELB2", "An internal load balancer of a sample; access logs would need a bucket that outlives it."},
	{"LoadBalancer/SecurityGroup/Resource", "CdkNagValidationFailure", "The rule cannot read the VPC's own address range, the only one that may enter."},
	{"Vpc/ecr-api/SecurityGroup/Resource", "CdkNagValidationFailure", "As above: only the VPC may enter."},
	{"Vpc/ecr-dkr/SecurityGroup/Resource", "CdkNagValidationFailure", "As above: only the VPC may enter."},
	{"Vpc/logs/SecurityGroup/Resource", "CdkNagValidationFailure", "As above: only the VPC may enter."},
}

func TestNag(t *testing.T) {
	app := sample(t, nil)
	service := stackOf(app, "NodeleaseService")
	for _, s := range sampleSuppressions {
		cdknag.NagSuppressions_AddResourceSuppressionsByPath(service, "/NodeleaseService/Sample/"+s.path,
			&[]*cdknag.NagPackSuppression{{Id: jsii.String(s.rule), Reason: jsii.String(s.reason)}}, nil)
	}
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(nil), nil)
	awscdk.Aspects_Of(app).Add(cdknag.NewServerlessChecks(nil), nil)
	for _, name := range []string{"Nodelease", "NodeleaseService"} {
		annotations := assertions.Annotations_FromStack(stackOf(app, name))
		everything := assertions.Match_StringLikeRegexp(jsii.String(".*"))
		for _, m := range *annotations.FindError(jsii.String("*"), everything) {
			t.Errorf("%s: %v", *m.Id, m.Entry.Data)
		}
		for _, m := range *annotations.FindWarning(jsii.String("*"), everything) {
			t.Errorf("%s: %v", *m.Id, m.Entry.Data)
		}
	}
}
