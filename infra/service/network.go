package service

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// newNetwork returns a network without a route to the internet. The tasks reach AWS
// through VPC endpoints: DynamoDB's for the leases, ECR's two and S3's for the image, and
// that of CloudWatch Logs. Credentials come from ECS itself.
func newNetwork(s constructs.Construct) awsec2.Vpc {
	vpc := awsec2.NewVpc(s, jsii.String("Vpc"), &awsec2.VpcProps{
		MaxAzs:                       jsii.Number(2),
		NatGateways:                  jsii.Number(0),
		RestrictDefaultSecurityGroup: jsii.Bool(false),
		SubnetConfiguration: &[]*awsec2.SubnetConfiguration{
			{Name: jsii.String("isolated"), SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED, CidrMask: jsii.Number(24)},
		},
	})
	vpc.AddGatewayEndpoint(jsii.String("dynamodb"), &awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB()})
	vpc.AddGatewayEndpoint(jsii.String("s3"), &awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_S3()})
	for _, e := range []struct {
		name    string
		service awsec2.IInterfaceVpcEndpointService
	}{
		{"ecr-api", awsec2.InterfaceVpcEndpointAwsService_ECR()},
		{"ecr-dkr", awsec2.InterfaceVpcEndpointAwsService_ECR_DOCKER()},
		{"logs", awsec2.InterfaceVpcEndpointAwsService_CLOUDWATCH_LOGS()},
	} {
		vpc.AddInterfaceEndpoint(jsii.String(e.name), &awsec2.InterfaceVpcEndpointOptions{Service: e.service, Subnets: isolated()})
	}
	return vpc
}

// newLoadBalancer puts an internal load balancer, reachable from inside the VPC, in front of the service. It deregisters a stopping task before
// the task's stop time-out.
func newLoadBalancer(s constructs.Construct, vpc awsec2.Vpc, service awsecs.FargateService) {
	balancer := awselasticloadbalancingv2.NewApplicationLoadBalancer(s, jsii.String("LoadBalancer"), &awselasticloadbalancingv2.ApplicationLoadBalancerProps{
		Vpc: vpc, InternetFacing: jsii.Bool(false), VpcSubnets: isolated(), DropInvalidHeaderFields: jsii.Bool(true),
	})
	listener := balancer.AddListener(jsii.String("Http"), &awselasticloadbalancingv2.BaseApplicationListenerProps{
		Port: jsii.Number(80), Protocol: awselasticloadbalancingv2.ApplicationProtocol_HTTP, Open: jsii.Bool(false),
	})
	listener.Connections().AllowDefaultPortFrom(awsec2.Peer_Ipv4(vpc.VpcCidrBlock()), jsii.String("from inside the VPC"))
	listener.AddTargets(jsii.String("Tasks"), &awselasticloadbalancingv2.AddApplicationTargetsProps{
		Port: jsii.Number(port), Protocol: awselasticloadbalancingv2.ApplicationProtocol_HTTP,
		Targets:             &[]awselasticloadbalancingv2.IApplicationLoadBalancerTarget{service},
		DeregistrationDelay: awscdk.Duration_Seconds(jsii.Number(15)),
		HealthCheck: &awselasticloadbalancingv2.HealthCheck{
			Path: jsii.String("/livez"), Interval: awscdk.Duration_Seconds(jsii.Number(10)), Timeout: awscdk.Duration_Seconds(jsii.Number(5)),
		},
	})
}
