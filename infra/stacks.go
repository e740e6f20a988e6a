package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/infra/service"
)

// build adds the stacks to the app; root is the repository's root.
func build(app awscdk.App, root string) error {
	size, err := strconv.Atoi(contextValue(app, "size", "1024"))
	if err != nil {
		return fmt.Errorf("the context value size is %q: use a whole number of node IDs, such as -c size=1024", contextValue(app, "size", ""))
	}
	pools := strings.Split(contextValue(app, "pool", "orders"), ",")
	props := &nodepool.Props{FunctionsDir: contextValue(app, "functions", root+"/dist/functions")}
	for _, pool := range pools {
		props.Pools = append(props.Pools, nodepool.PoolProps{Name: pool, Size: size})
	}
	if contextValue(app, "throwaway", "false") == "true" {
		props.RemovalPolicy, props.AllowDeletion = awscdk.RemovalPolicy_DESTROY, true
	}
	nodes := nodepool.New(stack(app, "Nodelease", "Node IDs leased from a DynamoDB table"), "Nodes", props)
	service.New(stack(app, "NodeleaseService", "A sample service whose tasks lease node IDs"), "Sample", &service.Props{
		Pool: nodes.Pool(pools[0]), Source: root,
	})
	if table := contextValue(app, "import", ""); table != "" {
		importer(stack(app, "NodeleaseImport", "A role that leases node IDs from another stack's table"), table, pools[0])
	}
	return nil
}

// importer fills the stack as the app of another repository would, which has only the outputs of the table's stack.
func importer(stack awscdk.Stack, table, pool string) {
	nodes := nodepool.FromAttributes(stack, "Nodes", &nodepool.Attributes{TableArn: table, Pools: []string{pool}})
	role := awsiam.NewRole(stack, jsii.String("Worker"), &awsiam.RoleProps{AssumedBy: awsiam.NewServicePrincipal(jsii.String("ec2.amazonaws.com"), nil)})
	nodes.Pool(pool).GrantLease(role)
	awscdk.NewCfnOutput(stack, jsii.String("Role"), &awscdk.CfnOutputProps{Value: role.RoleName()})
}

func stack(app awscdk.App, id, description string) awscdk.Stack {
	return awscdk.NewStack(app, jsii.String(id), &awscdk.StackProps{Description: jsii.String(description)})
}

func contextValue(app awscdk.App, key, otherwise string) string {
	switch value := app.Node().TryGetContext(jsii.String(key)).(type) {
	case nil:
		return otherwise
	case string:
		return value
	default:
		return fmt.Sprint(value)
	}
}
