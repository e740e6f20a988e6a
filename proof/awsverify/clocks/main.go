//go:build linux

// Command clocks is a Lambda function that reads its environment's clocks at the beginning
// and at the end of each invocation. Command awsverify deploys it to find out which clocks
// show that the environment was frozen between two invocations.
package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"golang.org/x/sys/unix"
)

// Reading is one reading of the clocks, in nanoseconds.
type Reading struct {
	Boot      int64 `json:"boot"`
	Monotonic int64 `json:"monotonic"`
	Wall      int64 `json:"wall"`
}

// Answer contains the readings of an invocation, and a value that identifies the
// environment.
type Answer struct {
	Environment string  `json:"environment"`
	Begin       Reading `json:"begin"`
	End         Reading `json:"end"`
}

func read() (r Reading, err error) {
	for clock, into := range map[int32]*int64{unix.CLOCK_BOOTTIME: &r.Boot, unix.CLOCK_MONOTONIC: &r.Monotonic} {
		var ts unix.Timespec
		if err := unix.ClockGettime(clock, &ts); err != nil {
			return r, err
		}
		*into = ts.Nano()
	}
	r.Wall = time.Now().UnixNano()
	return r, nil
}

func main() {
	environment := rand.Text()
	lambda.Start(func(context.Context) (a Answer, err error) {
		a.Environment = environment
		if a.Begin, err = read(); err != nil {
			return a, err
		}
		a.End, err = read()
		return a, err
	})
}
