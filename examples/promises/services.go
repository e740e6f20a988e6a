package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// services checks what is promised about services and their addresses.
func (c *check) services(ctx context.Context) error {
	pool, err := c.pool(ctx, "services", 2)
	if err != nil {
		return err
	}
	maxAge := c.ttl / 3
	directory := func(p *process) (*discovery.Directory, error) {
		return discovery.New(discovery.Config{Pool: pool, Store: discovery.NewTable(p.client, c.table), MaxAge: maxAge, Logger: slog.New(slog.DiscardHandler)})
	}
	one, err := c.start(ctx, pool)
	if err != nil {
		return err
	}
	two, err := c.start(ctx, pool)
	if err != nil {
		return err
	}
	offers, err := directory(one)
	if err != nil {
		return err
	}
	others, err := directory(two)
	if err != nil {
		return err
	}
	client, err := directory(&process{client: c.open(c.send)})
	if err != nil {
		return err
	}
	at := func(port int) discovery.Address { return discovery.Address{Host: "10.0.0.7", Port: port} }
	if err := offers.Register(ctx, one.agent, discovery.Service{Name: "orders", Address: at(1)}, discovery.Endpoint{Name: "shard", Key: "7", Address: at(1)}); err != nil {
		return err
	}
	orders, err := client.Service("orders")
	if err != nil {
		return err
	}
	shard, err := client.Endpoint("shard", "7")
	if err != nil {
		return err
	}
	is := func(l *discovery.Lookup, ports ...int) func() bool {
		return func() bool {
			list, err := l.Resolve(ctx)
			var got []int
			for _, i := range list {
				got = append(got, i.Port)
			}
			slices.Sort(got)
			return err == nil && slices.Equal(got, ports)
		}
	}
	if !is(orders, 1)() || !is(shard, 1)() {
		return errors.New("a registered service or key is not found")
	}
	c.holds("a service is found by its name, and an endpoint by its key, as soon as Register has returned")

	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan int, 100)
	go func() {
		for list := range orders.Watch(watching) {
			seen <- len(list)
		}
	}()
	if err := others.Register(ctx, two.agent, discovery.Service{Name: "orders", Address: at(2)}); err != nil {
		return err
	}
	if err := c.eventually(ctx, 2*maxAge, "another instance is found within MaxAge", is(orders, 1, 2)); err != nil {
		return err
	}
	services, err := client.Services().List(ctx)
	if err != nil {
		return err
	}
	keys, err := client.Keys("shard")
	if err != nil {
		return err
	}
	listed, err := keys.List(ctx)
	if err != nil {
		return err
	}
	links, err := client.Endpoints("orders")
	if err != nil {
		return err
	}
	linked, err := links.List(ctx)
	if err != nil || !slices.Equal(services, []string{"orders"}) || !slices.Equal(listed, []string{"7"}) || !slices.Equal(linked, []string{"shard"}) {
		return fmt.Errorf("got services %q, keys %q, endpoints %q: %w", services, listed, linked, err)
	}
	c.holds("services, the keys of an endpoint and the endpoints of a service can be listed")

	if err := offers.Leave(ctx, one.agent); err != nil {
		return err
	}
	if err := c.eventually(ctx, 2*maxAge, "an instance that leaves is gone within MaxAge", is(orders, 2)); err != nil {
		return err
	}
	two.cut.Store(true)
	if err := c.eventually(ctx, c.ttl+maxAge, "a crashed instance is gone when its lease expires", is(orders)); err != nil {
		return err
	}
	two.cut.Store(false)
	if err := c.eventually(ctx, 4*c.ttl, "an instance that was cut off is found again by the same entry", is(orders, 2)); err != nil {
		return err
	}

	node := two.agent.NodeID()
	two.cut.Store(true)
	next, err := c.start(ctx, pool) // another process, on the node ID that is left
	if err != nil {
		return err
	}
	if next.agent.NodeID() != node {
		return fmt.Errorf("the successor has node %d, want %d", next.agent.NodeID(), node)
	}
	if err := c.eventually(ctx, 2*maxAge, "(the crash is noticed)", is(orders)); err != nil {
		return err
	}
	for range 20 {
		if !is(orders)() {
			return errors.New("an entry counted for the next holder of the node ID")
		}
		if err := pause(ctx, maxAge/10); err != nil {
			return err
		}
	}
	c.holds("an entry never counts for the next holder of its node ID")
	if err := c.eventually(ctx, c.ttl, "a watch has shown every list", func() bool { return len(seen) >= 4 }); err != nil {
		return err
	}
	return errors.Join(one.agent.Close(), next.agent.Close())
}

// fixed checks what is promised about a node ID without a lease, for platforms that assign one.
func (c *check) fixed(context.Context) error {
	var p lease.Provider
	p, err := leasefixed.New(7, snowflake.Default())
	if err != nil {
		return err
	}
	ids, err := snowflake.New(p)
	if err != nil {
		return err
	}
	id, err := ids.Next()
	l, unheld := p.Lease()
	if err = errors.Join(err, unheld); err != nil || id.Node() != 7 || l.Version != 0 || l.Fenced() || time.Since(id.Time()) > time.Minute {
		return fmt.Errorf("a fixed node made %v with the lease %+v: %w", id, l, err)
	}
	c.holds("a fixed node ID works wherever a leased one does, and reports that it is not fenced")
	return p.Close()
}
