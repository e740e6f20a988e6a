// Command bootstrap is the Lambda function that seeds and resizes pools. CloudFormation
// invokes it for a custom resource, or people invoke it by hand. See [handler.Bootstrap].
//
// Its environment has NODELEASE_TABLE, the table's name, and NODELEASE_POOLS with all pools of
// the stack, a JSON list of {pool, size, excludeBelow}.
package main

import (
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/nodelease/nodelease/internal/app/handler"
)

func main() {
	handler.Log()
	// The answer to CloudFormation is sent with this client. Without a time limit, a request
	// that hangs would use up the time in which it could be sent again.
	http.DefaultClient.Timeout = 10 * time.Second
	b := &handler.Bootstrap{Table: os.Getenv("NODELEASE_TABLE")}
	b.Store, b.Setup = handler.Open()
	if text := os.Getenv("NODELEASE_POOLS"); text != "" && b.Setup == nil {
		b.Pools, b.Setup = handler.Pools(text)
	}
	lambda.Start(b.Handle)
}
