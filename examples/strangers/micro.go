//go:build linux

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func microNumbers(ctx context.Context, w *world) error {
	// The pool has the last four node IDs of 16 bits.
	name, _, err := w.seed(ctx, "wide", leasepool.Spec{Size: leasepool.MaxSize, ExcludeBelow: leasepool.MaxSize - 4, Layout: snowflake.Wide16()})
	var p *proc
	if err == nil {
		p, err = w.start(ctx, short(name))
	}
	_, _, err2 := w.seed(ctx, "wider", leasepool.Spec{Size: leasepool.MaxSize + 1})
	w.judge("M1", err, want(err2 != nil, "17 bits were accepted"))
	if err == nil {
		defer p.Close()
		ids, err := snowflake.New(p)
		if err != nil {
			return err
		}
		id, err := ids.Next()
		w.judge("M1", err, want(p.NodeID() >= 0xfffc && snowflake.Wide16().Decompose(id).Node == p.NodeID(), "node ID %d", p.NodeID()))
	}

	name, _, err = w.seed(ctx, "reserved", leasepool.Spec{Size: 12, ExcludeBelow: 8})
	if err != nil {
		return err
	}
	held := map[int]bool{}
	for range 4 {
		a, err := w.start(ctx, short(name))
		if err != nil {
			return err
		}
		defer a.Close()
		held[a.NodeID()] = true
	}
	_, err = w.start(ctx, short(name))
	fixed, err2 := leasefixed.New(3, snowflake.Default())
	w.judge("M2", err2, want(errors.Is(err, lease.ErrPoolExhausted), "a fifth one: %v", err), want(len(held) == 4 && !held[3] && held[8] && held[11], "held: %v", held))
	if err2 == nil {
		defer fixed.Close()
	}

	name, _, err = w.seed(ctx, "gaps", leasepool.Spec{Size: 200})
	highest := 0
	for range 3 {
		a, err := w.start(ctx, short(name))
		if err != nil {
			return err
		}
		defer a.Close()
		highest = max(highest, a.NodeID())
	}
	w.differs("M3", "a random free one of an open group", err, want(highest > 2, "three hold 0, 1 and 2"))
	return nil
}

// microWidth makes a narrow pool wider while two processes make IDs, until 1,000 nodes would fit.
func microWidth(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "narrow", leasepool.Spec{Size: 1024, Narrow: true, Layout: snowflake.Wide16()})
	if err != nil {
		return err
	}
	before, err := pool.Stats(ctx)
	if err != nil {
		return err
	}
	procs := make([]*proc, 2)
	ids := make([]*snowflake.Generator, 2)
	for i := range procs {
		if procs[i], err = w.start(ctx, short(name)); err != nil {
			return err
		}
		defer procs[i].Close()
		if ids[i], err = snowflake.New(procs[i]); err != nil {
			return err
		}
	}
	made, conflicts := map[snowflake.ID]bool{}, 0
	more := func() (first snowflake.ID, most int, err error) {
		perTick := map[time.Time]int{}
		for _, g := range ids {
			mine, err := take(ctx, g, 20000)
			if err != nil {
				return 0, 0, err
			}
			for i, id := range mine {
				if made[id] {
					conflicts++
				}
				made[id] = true
				if g == ids[0] && i > 0 {
					first = id
					t := snowflake.Wide16().Decompose(id).Time
					perTick[t]++
					most = max(most, perTick[t])
				}
			}
		}
		return first, most, nil
	}
	_, mostBefore, err := more()
	if err != nil {
		return err
	}
	widened := make(chan error, 1)
	go func() {
		_, err := pool.Resize(ctx, leasepool.Spec{Size: 1024, Expect: 600, Narrow: true})
		widened <- err
	}()
	for running := true; running; { // make IDs during the resize
		select {
		case err := <-widened:
			if err != nil {
				return err
			}
			running = false
		default:
			if _, _, err := more(); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond) // leave time for the other topics
		}
	}
	e, err := procs[0].wait(ctx, 0, lease.EventWidened)
	if err != nil {
		return err
	}
	after, err := pool.Stats(ctx)
	if err != nil {
		return err
	}
	eras := after.Pool.Eras
	last := eras[len(eras)-1]
	if wait := time.Until(last.From); wait > 0 { // no event reports when the era begins
		time.Sleep(wait + 50*time.Millisecond)
	}
	id, most, err := more()
	parts := eras.Decompose(snowflake.Wide16(), id)
	w.judge("M4", err, want(len(eras) == len(before.Pool.Eras)+1 && last.NodeBits == 11, "from %v to %v, %v", before.Pool.Eras, eras, e.Err))
	w.judge("M5", err, want(after.Pool.OpenGroups == 4, "%d open groups", after.Pool.OpenGroups), want(most > 64 && most <= 2048, "at most %d IDs in a millisecond", most),
		want(mostBefore > 64 && mostBefore <= 8192, "before, at most %d", mostBefore), want(parts.Node == procs[0].NodeID(), "node ID %d read as %d", procs[0].NodeID(), parts.Node))
	w.judge("M6", want(conflicts == 0, "%d of %d IDs", conflicts, len(made)))
	return nil
}

func microServices(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "services", leasepool.Spec{Size: 8})
	if err != nil {
		return err
	}
	open := func() (*proc, *discovery.Directory, error) {
		p, err := w.start(ctx, short(name))
		if err != nil {
			return nil, nil, err
		}
		d, err := discovery.New(discovery.Config{Pool: name, Store: discovery.NewTable(p.cable, w.table), MaxAge: 200 * time.Millisecond, Logger: quiet})
		return p, d, err
	}
	at := func(port int) discovery.Address { return discovery.Address{Host: "10.0.0.7", Port: port} }
	a, da, err := open()
	if err != nil {
		return err
	}
	b, db, err := open()
	if err != nil {
		return err
	}
	reader, err := discovery.New(discovery.Config{Pool: name, Store: discovery.NewTable(w.client, w.table), MaxAge: 200 * time.Millisecond, Logger: quiet})
	if err != nil {
		return err
	}
	stock, err := reader.Service("stock")
	if err != nil {
		return err
	}
	lists := make(chan []discovery.Instance, 100)
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(lists)
		for list := range stock.Watch(watch) {
			lists <- list
		}
	}()
	next := func(n int) (list []discovery.Instance, err error) {
		for list := range lists {
			if len(list) == n {
				return list, nil
			}
		}
		return nil, errors.New("the watch has ended")
	}
	offers := []discovery.Offer{
		discovery.Service{Name: "stock", Address: at(8080)}, discovery.Endpoint{Name: "orders", Address: at(8081)}, discovery.Endpoint{Name: "tenant", Key: "acme", Address: at(8082)},
	}
	if err := da.Register(ctx, a.Agent, offers...); err != nil {
		return err
	}
	one, err := next(1)
	if err != nil {
		return err
	}
	if err := db.Register(ctx, b.Agent, discovery.Service{Name: "stock", Address: at(8080)}); err != nil {
		return err
	}
	two, err := next(2)
	w.judge("M11", err, want(one[0].NodeID == a.NodeID() && one[0].HostPort() == "10.0.0.7:8080", "%+v", one))
	w.judge("M7", err, want(len(two) == 2 && two[0].NodeID != two[1].NodeID, "%+v", two))

	links, err := reader.Endpoints("stock")
	if err != nil {
		return err
	}
	endpoints, err := links.List(ctx)
	w.judge("M8", err, want(slices.Equal(endpoints, []string{"orders", "tenant"}), "%v", endpoints))

	plain, err1 := reader.Endpoint("orders", "")
	keyed, err2 := reader.Endpoint("tenant", "acme")
	_, reserved := reader.Endpoint("orders", "_")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	p, err1 := plain.Resolve(ctx)
	k, err2 := keyed.Resolve(ctx)
	w.judge("M9", err1, err2, want(len(p) == 1 && p[0].Port == 8081 && len(k) == 1 && k[0].Port == 8082, "%+v, %+v", p, k), want(reserved != nil, "the key _ is another one than none"))

	held, err := a.Lease()
	if err != nil {
		return err
	}
	a.crash()
	rest, err := next(1)
	w.judge("M10", err, want(rest[0].NodeID == b.NodeID(), "%+v", rest), want(time.Since(held.ExpiresAt) < 6*time.Second, "gone %v after the lease", time.Since(held.ExpiresAt)))
	err = db.Leave(ctx, b.Agent)
	_ = b.Close()
	return err
}
