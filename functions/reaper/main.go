// Command reaper is the Lambda function that frees the node IDs that crashed processes left
// behind, and removes the entries of their services, on a schedule. See [handler.Reaper].
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
	"github.com/nodelease/nodelease/pkg/discovery"
)

func main() {
	handler.Log()
	pools, wrong := handler.Pools(os.Getenv("NODELEASE_POOLS"))
	store, err := handler.Open()
	if err := errors.Join(wrong, err); err != nil {
		slog.Error("not started", "error", err.Error())
		os.Exit(1)
	}
	r := &handler.Reaper{Store: store, Entries: discovery.NewTable(store.Table()), Pools: pools}
	lambda.Start(r.Handle)
}
