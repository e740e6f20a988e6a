// Package roles has the stack of the example, with two roles for pods that lease node IDs.
package roles

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseks"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
)

// Names of what other teams' stacks made: the output NodesTableArn of Nodelease, and the cluster.
const (
	tableARN  = "arn:aws:dynamodb:us-east-1:111111111111:table/leases"
	keyARN    = "arn:aws:kms:us-east-1:111111111111:key/1c3f8a52-0000-4000-8000-000000000001"
	otherKey  = "arn:aws:kms:us-east-2:111111111111:key/1c3f8a52-0000-4000-8000-000000000002"
	cluster   = "services"
	issuer    = "oidc.eks.us-east-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E" // without https://
	namespace = "shop"
	account   = "orders" // the pods' service account
)

// New puts the stack into the app. In the pods' manifest set NODELEASE_TABLE to the ARN and NODELEASE_POOL to orders. Pods in us-east-2 need the
// ARN of the replica there, because DynamoDB takes only ARNs of the client's own Region.
func New(app awscdk.App) awscdk.Stack {
	stack := awscdk.NewStack(app, jsii.String("PodRoles"), &awscdk.StackProps{
		Env: &awscdk.Environment{Region: jsii.String("us-east-1"), Account: jsii.String("111111111111")},
	})
	pool := nodepool.FromAttributes(stack, "Nodes", &nodepool.Attributes{
		TableArn:     tableARN,
		Pools:        []string{"orders"},
		Replicas:     []string{"us-east-2"}, // the pods may continue there
		Key:          awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(keyARN)),
		ReplicaKeys:  map[string]string{"us-east-2": otherKey},
		Architecture: awslambda.Architecture_X86_64(),
	}).Pool("orders")
	pool.GrantLease(podIdentity(stack))
	pool.GrantLease(irsa(stack))
	return stack
}

// podIdentity returns a role for clusters with the EKS Pod Identity Agent. The association assigns the role to the service account, which
// needs no annotation.
func podIdentity(stack awscdk.Stack) awsiam.Role {
	pods := awsiam.NewServicePrincipal(jsii.String("pods.eks.amazonaws.com"), nil)
	role := awsiam.NewRole(stack, jsii.String("PodIdentity"), &awsiam.RoleProps{AssumedBy: awsiam.NewSessionTagsPrincipal(pods)})
	awseks.NewCfnPodIdentityAssociation(stack, jsii.String("Association"), &awseks.CfnPodIdentityAssociationProps{
		ClusterName: jsii.String(cluster), Namespace: jsii.String(namespace), ServiceAccount: jsii.String(account), RoleArn: role.RoleArn(),
	})
	return role
}

// irsa returns a role for clusters with an OpenID Connect provider in IAM. The service account is annotated with
// eks.amazonaws.com/role-arn.
func irsa(stack awscdk.Stack) awsiam.Role {
	provider := stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("iam"), Region: jsii.String(""), Resource: jsii.String("oidc-provider"), ResourceName: jsii.String(issuer),
	})
	return awsiam.NewRole(stack, jsii.String("Irsa"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewWebIdentityPrincipal(provider, &map[string]any{
			// Both conditions are needed: without the subject, every pod of the cluster could take the role.
			"StringEquals": map[string]any{
				issuer + ":aud": "sts.amazonaws.com",
				issuer + ":sub": "system:serviceaccount:" + namespace + ":" + account,
			},
		}),
	})
}
