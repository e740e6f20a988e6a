// Command service is the sample that infra/service deploys: it leases a node ID and returns IDs over HTTP.
//
//	POST /ids?n=3   {"node_id":7,"ids":["7264…", …]}   strings, since JavaScript's numbers end at 2^53
//	GET  /livez     the liveness check, for restarting the process
//	GET  /readyz    the readiness check, for routing requests to it
//
// On SIGTERM it accepts no more connections, answers the open requests, and releases the node ID last. If the lease is lost, it exits with
// an error, and ECS starts another task.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// drain is how long accepted requests may take to end. With the release after it, it fits into the stop time-out that Attach sets.
const drain = 30 * time.Second

func main() {
	listen := flag.String("listen", ":8080", "address to listen on")
	healthcheck := flag.Bool("healthcheck", false, "call the live check of the service on the listen address, and exit with 0 or 1")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))

	err := error(nil)
	if *healthcheck {
		err = live(*listen)
	} else {
		err = lease.Run(context.Background(), lease.Config{}, func(ctx context.Context, agent *lease.Agent) error {
			return serve(ctx, agent, *listen)
		})
	}
	if err != nil {
		slog.Error("service ends", "error", err)
		os.Exit(1)
	}
}

// serve answers requests until ctx ends: on a signal, or because the lease is lost.
func serve(ctx context.Context, agent *lease.Agent, listen string) error {
	ids, err := snowflake.New(agent)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	slog.Info("listening", "address", listener.Addr().String(), "node_id", agent.NodeID())

	server := &http.Server{Handler: routes(agent, ids), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	slog.Info("draining", "because", context.Cause(ctx))
	drained, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(drained); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// live is the container's health check. The image contains no other program that could check the service.
func live(listen string) error {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 3 * time.Second}
	response, err := client.Get("http://" + net.JoinHostPort("127.0.0.1", port) + "/livez")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the live check answers %s", response.Status)
	}
	return nil
}
