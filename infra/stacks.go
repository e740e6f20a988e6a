package main

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/infra/service"
)

// build puts the stacks into the app, with root as the repository's root.
func build(app awscdk.App, root string) error {
	size, err := strconv.Atoi(contextValue(app, "size", "1024"))
	if err != nil {
		return fmt.Errorf("the context value size is %q: give a whole number of node IDs, such as -c size=1024", contextValue(app, "size", ""))
	}
	pool := contextValue(app, "pool", "orders")
	props := &nodepool.Props{
		Pools:        []nodepool.PoolProps{{Name: pool, Size: size}},
		FunctionsDir: contextValue(app, "functions", root+"/dist/functions"),
	}
	if contextValue(app, "throwaway", "false") == "true" {
		props.RemovalPolicy, props.AllowDeletion = awscdk.RemovalPolicy_DESTROY, true
	}
	nodes := nodepool.New(stack(app, "Nodelease", "Node IDs leased from a DynamoDB table"), "Nodes", props)
	service.New(stack(app, "NodeleaseService", "A sample service whose tasks lease node IDs"), "Sample", &service.Props{
		Pool: nodes.Pool(pool), Source: root,
	})
	return nil
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
