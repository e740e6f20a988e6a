//go:build linux

package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func etcdUnique(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "unique", leasepool.Spec{Size: 24})
	if err != nil {
		return err
	}
	const n, each = 24, 20000
	var mu sync.Mutex
	nodes, ids := map[int]bool{}, make(map[snowflake.ID]bool, n*each)
	var problems error
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			cfg := short(name)
			cfg.Wait = 20 * time.Second
			p, err := w.start(ctx, cfg)
			var mine []snowflake.ID
			if err == nil {
				var g *snowflake.Generator
				if g, err = snowflake.New(p); err == nil {
					mine, err = take(ctx, g, each)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if problems = errors.Join(problems, err); err != nil {
				return
			}
			nodes[p.NodeID()] = true
			for i, id := range mine {
				if i > 0 && id <= mine[i-1] {
					problems = errors.Join(problems, errors.New("IDs do not grow"))
				}
				ids[id] = true
			}
		})
	}
	all.Wait()
	if problems != nil {
		return problems
	}
	w.judge("S1", want(len(nodes) == n, "%d agents have %d node IDs", n, len(nodes)))
	w.judge("S2", want(len(ids) == n*each, "%d different IDs of %d", len(ids), n*each))
	_, err = w.start(ctx, short(name))
	var full *lease.ExhaustedError
	w.judge("S3", want(errors.Is(err, lease.ErrPoolExhausted) && errors.As(err, &full) && full.Size == n, "%v", err))

	layout := snowflake.Default()
	perTick := map[time.Time]int{}
	most := 0
	for id := range ids {
		if id.Node() == 7 {
			perTick[id.Time()]++
			most = max(most, perTick[id.Time()])
		}
	}
	w.judge("S4", want(layout.Nodes() == 1024 && layout.SequenceBits == 12, "%v", layout), want(most > 3000 && most <= 4096, "at most %d in a millisecond", most))
	return nil
}

// etcdReuse kills a holder that makes IDs as fast as it can, and compares its IDs with those of the next holder.
func etcdReuse(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "reuse", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	cfg := short(name)
	cfg.TTL, cfg.Guard, cfg.ClaimGuard, cfg.Wait = 10*time.Second, 0, 0, 40*time.Second
	a, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	ids, err := snowflake.New(a)
	if err != nil {
		return err
	}
	made, err := take(ctx, ids, 50000)
	if err != nil {
		return err
	}
	a.cable.cut.Store(true)
	cut := time.Now()
	for { // until the holder is fenced
		id, err := ids.Next()
		if err != nil {
			break
		}
		made = append(made[:1], id)
		time.Sleep(time.Millisecond)
	}
	last := made[len(made)-1]
	b, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	waited := time.Since(cut)
	ids, err = snowflake.New(b)
	if err != nil {
		return err
	}
	first, err := ids.Next()
	w.judge("S5", want(b.NodeID() == a.NodeID(), "node ID %d", b.NodeID()))
	w.judge("S6", err, want(first.Time().After(last.Time()) && first > last, "%v after %v", first.Time(), last.Time()))
	w.judge("S7", want(waited > 5*time.Second && waited < 15*time.Second, "taken %v after the crash", waited))
	go func() { _ = a.Close() }()
	return nil
}

func etcdClockBehind(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "behind", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	cfg := short(name)
	cfg.Clock = leasetest.NewClock(-time.Minute)
	p, err := w.start(ctx, cfg)
	w.judge("S8", want(errors.Is(err, lease.ErrClockSkew) || errors.Is(err, lease.ErrClockBehind), "a start with a clock that is a minute behind: %v", err))
	if err == nil {
		_ = p.Close()
	}
	return nil
}

func etcdReport(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "report", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	p, err := w.start(ctx, short(name))
	if err != nil {
		return err
	}
	ids, err := snowflake.New(p)
	if err != nil {
		return err
	}
	first, _, err := leases(ctx, pool)
	if err != nil {
		return err
	}
	if _, err := p.wait(ctx, p.seen(), lease.EventRenewed); err != nil {
		return err
	}
	id, err := ids.Next()
	second, _, err2 := leases(ctx, pool)
	w.judge("S9", err, err2, want(second[0].ReservedUntil.After(first[0].ReservedUntil), "%v, then %v", first[0].ReservedUntil, second[0].ReservedUntil),
		want(!id.Time().After(second[0].ReservedUntil), "an ID of %v", id.Time()))

	if _, err := pool.ForceRelease(ctx, 0, first[0].Version); err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	_, err = ids.Next()
	w.judge("S10", want(errors.Is(p.Err(), lease.ErrLost), "ended with %v", p.Err()), want(err != nil, "it still makes IDs"))
	return p.Close()
}

func etcdDrift(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "drift", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	clock := leasetest.NewClock(0)
	cfg := lease.Config{Pool: name, Clock: clock}
	p, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	ids, err := snowflake.New(p)
	if err != nil {
		return err
	}
	before, err := ids.Next()
	if err != nil {
		return err
	}
	ready := func() int {
		r := httptest.NewRecorder()
		p.Ready().ServeHTTP(r, httptest.NewRequest("GET", "/", nil))
		return r.Code
	}
	step := func(by time.Duration) {
		clock.Step(by)
		time.Sleep(5 * time.Millisecond) // the wall clock is read once per tick
	}
	step(-80 * time.Millisecond)
	id, err := ids.Next()
	w.judge("S11", err, want(id > before, "%d after %d", id, before))
	step(80*time.Millisecond - 4*time.Second)
	var behind *snowflake.ClockError
	took, err := within(func() error { _, err := ids.Next(); return err })
	w.judge("S12", want(errors.As(err, &behind), "%v", err), want(took < 100*time.Millisecond, "the error came after %v", took))

	step(-time.Minute)
	_, err = ids.Next()
	far, unready := errors.As(err, &behind), ready()
	if _, err := p.wait(ctx, p.seen(), lease.EventRenewed); err != nil {
		return err
	}
	step(64 * time.Second)
	_, err2 := ids.Next()
	w.differs("S13", "no IDs and not ready, but the lease stays, and IDs are made again once the clock is right", want(far && unready == 503, "%v, ready %d", err, unready), err2)
	return nil
}

func etcdOutage(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "outage", leasepool.Spec{Size: 2})
	if err != nil {
		return err
	}
	a, err := w.start(ctx, short(name))
	if err != nil {
		return err
	}
	ids, err := snowflake.New(a)
	if err != nil {
		return err
	}
	after := a.seen()
	a.cable.cut.Store(true)
	_, err = ids.Next()
	_, waited := a.wait(ctx, after, lease.EventSuspended)
	_, err2 := ids.Next()
	w.judge("S14", err, waited, want(errors.Is(err2, snowflake.ErrFenced), "after the deadline: %v", err2))

	away := &cable{client: w.client}
	away.cut.Store(true)
	cfg := short(name)
	cfg.Store = lease.NewDynamoDB(away, w.table)
	brief, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = w.start(brief, cfg)
	w.judge("S15", want(err != nil, "it started"))
	go func() { _ = a.Close() }()
	return nil
}
