package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// services: what is where.
func services(w *world) error {
	const fresh = time.Second
	pool := w.pool("services")
	directory := func(p *process) (*discovery.Directory, error) {
		return discovery.New(discovery.Config{Pool: pool, Store: discovery.NewTable(p.client, w.table), MaxAge: fresh, Logger: quiet()})
	}
	here := func(port int) discovery.Address {
		return discovery.Address{Host: "10.0.0.7", Port: port, Zone: "a", Labels: map[string]string{"build": "1"}}
	}
	var ps []*process
	defer func() { end(ps...) }()
	var ds []*discovery.Directory
	for i := range 2 {
		p, err := w.start(pool, 2, nil)
		if err != nil {
			return err
		}
		ps = append(ps, p)
		d, err := directory(p)
		if err != nil {
			return err
		}
		ds = append(ds, d)
		shard := []string{"7", "8"}[i]
		err = d.Register(w.ctx, p.Agent, discovery.Service{Name: "orders", Address: here(8080 + i)},
			discovery.Endpoint{Name: "shard", Key: shard, Address: here(8080 + i)})
		if err != nil {
			return err
		}
	}
	reader := w.connect()
	d, err := directory(reader)
	if err != nil {
		return err
	}
	orders, err := d.Service("orders")
	if err != nil {
		return err
	}
	found, err := orders.Resolve(w.ctx)
	if err != nil {
		return err
	}
	w.check("Consul", "a service's instances are found, with address and labels",
		len(found) == 2 && found[0].HostPort() != found[1].HostPort() && found[0].Labels["build"] == "1", "%d instances", len(found))

	shard, err := d.Endpoint("shard", "7")
	if err != nil {
		return err
	}
	owner, err := shard.Resolve(w.ctx)
	w.check("Orleans", "the owner of a key is found", err == nil && len(owner) == 1 && owner[0].Port == 8080, "%d", len(owner))
	names, err := d.Services().List(w.ctx)
	w.check("Consul", "the catalog lists all services", err == nil && slices.Equal(names, []string{"orders"}), "%v", names)
	keys, err := d.Keys("shard")
	if err != nil {
		return err
	}
	names, err = keys.List(w.ctx)
	w.check("etcd", "keys under a prefix are listed", err == nil && slices.Equal(names, []string{"7", "8"}), "%v", names)
	links, err := d.Endpoints("orders")
	if err != nil {
		return err
	}
	names, err = links.List(w.ctx)
	w.check("Cloud Map", "a service leads to its endpoints", err == nil && slices.Equal(names, []string{"shard"}), "%v", names)

	// No entry has a heartbeat of its own.
	renewals, writes := ps[0].held().Renewal, ps[0].line.writes.Load()
	time.Sleep(3 * ttl)
	renewals, writes = ps[0].held().Renewal-renewals, ps[0].line.writes.Load()-writes
	found, err = orders.Resolve(w.ctx)
	w.check("CockroachDB", "one session heartbeat of a process carries every claim", err == nil && len(found) == 2 && writes <= renewals+1, "%d renewals, %d writes", renewals, writes)

	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	lists := make(chan int, 100)
	go func() {
		for is := range orders.Watch(ctx) {
			lists <- len(is)
		}
	}()
	if err := ds[0].Leave(w.ctx, ps[0].Agent); err != nil {
		return err
	}
	took, ok := w.until(2*ttl, func() bool {
		for len(lists) > 0 {
			if <-lists == 1 {
				return true
			}
		}
		return false
	})
	w.check("etcd", "a watch tells of one that was deregistered", ok, "after %v", round(took))

	ps[1].crash()
	took, ok = w.until(3*ttl, func() bool {
		for len(lists) > 0 {
			if <-lists == 0 {
				return true
			}
		}
		return false
	})
	w.check("Consul", "a service ends with its session", ok && took <= 2*ttl, "%v after the crash", round(took))
	stop()

	if err := ds[0].Register(w.ctx, ps[0].Agent, discovery.Service{Name: "orders", Address: here(8080)}); err != nil {
		return err
	}
	if _, ok := w.until(2*ttl, func() bool { found, err = orders.Resolve(w.ctx); return err == nil && len(found) == 1 }); !ok {
		return errors.New("the instance that registered again was not found")
	}
	reader.line.cut.Store(true)
	time.Sleep(2 * fresh)
	found, err = orders.Resolve(w.ctx)
	w.check("Eureka", "while the registry is away, the last answer is returned", err != nil && len(found) == 1, "%d instance, and the error", len(found))
	return nil
}

// fixed: a node ID that the platform gave.
func fixed(w *world) error {
	f, err := lease.Fixed(7, snowflake.Default())
	if err != nil {
		return err
	}
	defer f.Close()
	var provider lease.Provider = f
	l, err := provider.Lease()
	if err != nil {
		return err
	}
	g, err := snowflake.New(provider)
	if err != nil {
		return err
	}
	id, err := g.NextContext(w.ctx)
	if err != nil {
		return err
	}
	w.check("Zeebe", "a fixed node ID is a provider, too", l.NodeID == 7 && id.Node() == 7, "node ID %d", id.Node())
	w.check("Zeebe", "a fixed node ID has no version that fences", l.Version == 0 && !l.Fenced(), "version %d", l.Version)
	_, err = lease.Fixed(1024, snowflake.Default())
	w.check("Zeebe", "a node ID that is out of bounds is refused", err != nil, "%v", err)
	return nil
}
