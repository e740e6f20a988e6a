// Command discovery is a service that other services find, and that finds other services, with only the table of the leases. Each process
// listens on a free port of this machine, registers this address with its lease, and calls another service by name. If you kill a process
// (kill -9), its callers switch to another one at once. The dead process is no longer found once its lease has expired.
//
//	NODELEASE_TABLE=… NODELEASE_POOL=shop go run ./examples/discovery -name orders -zone a -calls stock
//	NODELEASE_TABLE=… NODELEASE_POOL=shop go run ./examples/discovery -name stock -zone a -calls orders
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

func main() {
	log.SetFlags(0)
	name := flag.String("name", "orders", "the service that this process is an instance of")
	zone := flag.String("zone", "", "where it runs")
	calls := flag.String("calls", "", "the service that it calls, five times a second; if empty, it lists the services")
	ttl := flag.Duration("ttl", 5*time.Second, "length of the lease")
	flag.Parse()

	ctx := context.Background()
	client, err := lease.OpenClient(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	table := os.Getenv("NODELEASE_TABLE")
	cfg := lease.Config{Store: lease.NewDynamoDB(client, table), TTL: *ttl}
	directory, err := discovery.New(discovery.Config{
		Store: discovery.NewTable(client, table), MaxAge: time.Second, Logger: slog.Default().With("service", *name),
	})
	if err != nil {
		log.Fatal(err)
	}
	err = lease.Run(ctx, cfg, func(ctx context.Context, agent *lease.Agent) error {
		return serve(ctx, agent, directory, *name, *zone, *calls)
	})
	if err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, agent *lease.Agent, directory *discovery.Directory, name, zone, calls string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// Answer first, register second: callers that find this process get an answer.
	here := discovery.Address{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, Zone: zone}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "%s %d", name, agent.NodeID()) })
	mux.Handle("/shards/", shards(directory, agent, name, here))
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: mux}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	defer server.Close()

	if err := directory.Register(ctx, agent, discovery.Service{Name: name, Address: here}); err != nil {
		return err
	}
	fmt.Printf("%s %d is at %s\n", name, agent.NodeID(), here.HostPort())
	if calls != "" {
		lookup, err := directory.Service(calls)
		if err != nil {
			return err
		}
		go tell(ctx, lookup, calls)
		go call(ctx, &http.Client{Transport: &transport{directory: directory, zone: zone, base: http.DefaultTransport}}, calls)
	} else {
		go catalogue(ctx, directory.Services(), os.Stdout)
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	// Deregister first, so that callers go elsewhere while the last requests are answered; lease.Run releases the lease last.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return errors.Join(err, directory.Leave(drain, agent), server.Shutdown(drain))
}

// catalogue prints the names of the services with a live instance, each time that they change.
func catalogue(ctx context.Context, services *discovery.Names, out io.Writer) {
	for names := range services.Watch(ctx) {
		fmt.Fprintln(out, "services:", strings.Join(names, " "))
	}
}

// tell prints the live instances of a service, each time that they change.
func tell(ctx context.Context, lookup *discovery.Lookup, service string) {
	for list := range lookup.Watch(ctx) {
		fmt.Printf("%s:", service)
		for _, i := range list {
			fmt.Printf(" %d", i.NodeID)
		}
		fmt.Println()
	}
}

// call calls a service and prints the instance that answered.
func call(ctx context.Context, client *http.Client, service string) {
	for ctx.Err() == nil {
		if answer, err := get(ctx, client, "http://"+service+"/"); err != nil {
			fmt.Printf("no answer: %v\n", err)
		} else {
			fmt.Printf("%s answered\n", answer)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
