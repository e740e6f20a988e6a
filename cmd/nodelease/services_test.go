package main

import (
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Registered services are listed and resolved from a shell.
func TestServicesAndResolve(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	w.seed("orders", 2)
	run := func(words, want string, code int) {
		t.Helper()
		args := append(strings.Split(words, "|"), "--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders")
		got, stdout, stderr := call(args...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d, %q %q, want %d and %q", words, got, stdout, stderr, code, want)
		}
	}
	run("services", "no live process has registered a service in pool orders\n", 0)
	run("services|--json", `{"services":[]}`, 0)
	run("resolve|stock", "no live instance of stock in pool orders\n", 0)
	run("resolve|stock|--json", `{"instances":[]}`, 0)
	run("resolve|shard|--keys", "no live instance at any key of shard", 0)
	run("resolve|shard|--keys|--json", `{"keys":[]}`, 0)

	agent, err := lease.Start(t.Context(), lease.Config{Store: lease.NewDynamoDB(client, w.table), Pool: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	directory, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(client, w.table)})
	if err != nil {
		t.Fatal(err)
	}
	here := discovery.Address{Host: "10.0.0.7", Port: 8080, Zone: "a", Labels: map[string]string{"build": "7"}}
	if err := directory.Register(t.Context(), agent, discovery.Service{Name: "stock", Address: here},
		discovery.Endpoint{Name: "shard", Key: "7", Address: here}, discovery.Endpoint{Name: "shard", Address: discovery.Address{Host: "::1"}}); err != nil {
		t.Fatal(err)
	}
	run("services", "stock", 0)
	run("services|--json", `{"services":[{"name":"stock","endpoints":["shard"]}]}`, 0)
	run("resolve|stock", "10.0.0.7:8080", 0)
	run("resolve|stock", "build=7", 0)
	run("resolve|stock|--json", `"host":"10.0.0.7","port":8080`, 0)
	run("resolve|shard|--keys", "(no key)\n7\n", 0)
	run("resolve|shard|--keys|--json", `{"keys":["","7"]}`, 0)
	run("resolve|shard|--key|7", "10.0.0.7:8080", 0)
	run("resolve|shard|--key|", "::1", 0)

	run("resolve", "name one service or endpoint", 2)
	run("resolve|a#b", "service name", 2)
	run("resolve|shard|--key|a#b", "key", 2)
	run("resolve|a#b|--keys", "endpoint name", 2)
	run("resolve|shard|--key|7|--keys", "key", 2)
}
