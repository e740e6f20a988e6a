package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// ServerCommand is the command of this program that serves the embedded DynamoDB.
const ServerCommand = "dynamodb"

// Serving is the JSON of the first line that a DynamoDB process prints on stdout with
// --json, once it serves.
type Serving struct {
	Endpoint string `json:"endpoint"`
}

// server is the DynamoDB process.
type server struct {
	*process
	endpoint string
	ended    chan error // receives one value: why the process ended
}

// startServer starts a DynamoDB process on a port (0: a free one) and waits until it
// answers. data is the file in which it keeps its tables; if empty, it has no file.
func startServer(ctx context.Context, port int, table, data string) (*server, error) {
	args := []string{ServerCommand, "--json", "--attached", "--listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--table", table}
	if data != "" {
		args = append(args, "--data", data)
	}
	p, err := startProcess(args...)
	if err != nil {
		return nil, err
	}
	s := &server{process: p, ended: make(chan error, 1)}
	ready := make(chan error, 1)
	go func() {
		out := bufio.NewReader(p.stdout)
		line, err := out.ReadBytes('\n')
		if err == nil {
			var v Serving
			err = json.Unmarshal(line, &v)
			s.endpoint = v.Endpoint
			ready <- err
			_, _ = io.Copy(io.Discard, out) // until the process ends
			s.ended <- p.wait()
			return
		}
		err = p.wait()
		if err == nil {
			err = errors.New("it ended at once")
		}
		ready <- fmt.Errorf("the demo's DynamoDB: %w", err)
	}()
	select {
	case err = <-ready:
	case <-ctx.Done():
		p.kill()
		<-ready
		err = context.Cause(ctx)
	}
	return s, err
}

// port returns the port on which the process listens.
func (s *server) port() int {
	u, err := url.Parse(s.endpoint)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(u.Port())
	return n
}

// stop ends the process, and kills it if that takes more than two seconds.
func (s *server) stop() {
	s.terminate()
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-s.ended:
		return
	case <-timer.C:
	}
	s.kill()
	<-s.ended
}
