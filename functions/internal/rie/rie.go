// Package rie runs a built function under AWS's own runtime interface emulator, for the
// contract tests and for `make invoke`. The emulator is the program that stands in for Lambda
// in AWS's images; scripts/rie.sh downloads it. Everything listens on 127.0.0.1.
package rie

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Function is a running function that waits for events.
type Function struct {
	url    string
	stop   context.CancelFunc
	ended  chan struct{} // closed when the emulator has ended
	client http.Client
}

// Start runs a function's binary under the emulator, until Close. The function's log is written
// to log, and its environment has only the variables in env.
func Start(ctx context.Context, emulator, binary string, env []string, log io.Writer) (*Function, error) {
	var err error
	// Another process may take the free port before the emulator does.
	for range 3 {
		var f *Function
		if f, err = start(ctx, emulator, binary, env, log); err == nil {
			return f, nil
		}
	}
	return nil, fmt.Errorf("%s did not start: %w", emulator, err)
}

func start(ctx context.Context, emulator, binary string, env []string, log io.Writer) (*Function, error) {
	front, err := freeAddress()
	if err != nil {
		return nil, err
	}
	runtime, err := freeAddress()
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, emulator,
		"--runtime-interface-emulator-address", front, "--runtime-api-address", runtime, "--log-level", "error", binary)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the emulator ends the function too
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		stop()
		return nil, err
	}
	f := &Function{url: "http://" + front + "/2015-03-31/functions/function/invocations", stop: stop, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // an error is expected, since the emulator is ended by a signal
		close(f.ended)
	}()
	for try := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-f.ended:
			stop()
			return nil, errors.New("it exited at once: see its log")
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-try.C:
		}
		if c, err := net.Dial("tcp", front); err == nil {
			try.Stop()
			return f, c.Close()
		}
	}
}

// Invoke sends an event and returns the function's answer, or the function's error.
func (f *Function) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	var failed struct{ ErrorMessage, ErrorType string }
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the emulator answered %s: %s", res.Status, body)
	case json.Unmarshal(body, &failed) == nil && failed.ErrorMessage != "":
		return nil, fmt.Errorf("the function failed: %s: %s", failed.ErrorType, failed.ErrorMessage)
	}
	return body, nil
}

// Close ends the function and the emulator.
func (f *Function) Close() {
	f.stop()
	<-f.ended
	f.client.CloseIdleConnections()
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Emulator returns the path of the emulator that scripts/rie.sh has installed, for programs
// that run inside the repository.
func Emulator() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository")
		}
	}
	path := filepath.Join(dir, ".cache", "rie", "aws-lambda-rie")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no emulator: run scripts/rie.sh, which downloads it: %w", err)
	}
	return path, nil
}

// Environment returns the environment of a function: the endpoint of DynamoDB, the endpoint of
// all other services, the table and the pools.
func Environment(dynamodb, cloud, table, pools string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local",
		"AWS_LAMBDA_FUNCTION_TIMEOUT=60", "AWS_ENDPOINT_URL_DYNAMODB=" + dynamodb, "AWS_ENDPOINT_URL=" + cloud,
		"NODELEASE_TABLE=" + table, "NODELEASE_POOLS=" + pools,
	}
}
