package handler

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Log makes every line of the process a JSON object. The Lambda runtime reports errors
// through package log: a handler's failure, a panic, a runtime that cannot be reached.
func Log() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	slog.SetLogLoggerLevel(slog.LevelError)
}

// logger returns a logger that names the Lambda request in every line.
func logger(ctx context.Context) *slog.Logger {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return slog.With("request_id", lc.AwsRequestID)
	}
	return slog.Default()
}
