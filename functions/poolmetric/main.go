// Command poolmetric is the Lambda function that measures the pools on a schedule and
// publishes their gauges to CloudWatch. See [handler.Poolmetric].
//
// Its environment has NODELEASE_TABLE, the table's name, and NODELEASE_POOLS, a JSON list of
// {pool, size, excludeBelow}.
package main

import (
	"errors"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/nodelease/nodelease/internal/app/handler"
	"github.com/nodelease/nodelease/internal/protocol"
)

func main() {
	handler.Log()
	pools, wrong := handler.Pools(os.Getenv("NODELEASE_POOLS"))
	store, noTable := handler.Open()
	metrics, noMetrics := handler.OpenMetrics()
	if err := errors.Join(wrong, noTable, noMetrics); err != nil {
		slog.Error("not started", "error", err.Error())
		os.Exit(1)
	}
	p := &handler.Poolmetric{Table: protocol.TableName(os.Getenv("NODELEASE_TABLE")), Store: store, Metrics: metrics, Pools: pools}
	lambda.Start(p.Handle)
}
