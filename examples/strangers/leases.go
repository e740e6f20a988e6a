package main

import (
	"errors"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// drawn has the IDs that all processes of a pool made.
type drawn struct {
	ids      map[snowflake.ID]bool
	repeated int
	wrong    int // of another node ID, or not above the last one
}

// draw makes some IDs on a process.
func (d *drawn) draw(p *process) error {
	g, err := snowflake.New(p.Agent)
	if err != nil {
		return err
	}
	var last snowflake.ID
	for range 1000 {
		id, err := g.Next()
		if err != nil {
			return err
		}
		if d.ids[id] {
			d.repeated++
		}
		if id <= last || g.Layout().Decompose(id).Node != p.NodeID() {
			d.wrong++
		}
		d.ids[id], last = true, id
	}
	return nil
}

// leases: what a fleet sees that starts, runs, crashes and is cut off.
func leases(w *world) error {
	pool := w.pool("leases")
	ps, errs := make([]*process, 3), make([]error, 3)
	var fleet sync.WaitGroup
	for i := range ps {
		fleet.Go(func() { ps[i], errs[i] = w.start(pool, 3, wait(2*ttl)) })
	}
	fleet.Wait()
	defer func() { end(ps...) }()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ids := map[int]bool{}
	first := true
	for _, p := range ps {
		ids[p.NodeID()] = true
		l := p.held()
		first = first && l.Version == 1 && l.Predecessor() == nil
	}
	w.check("Zeebe", "several tasks initialise the leases at once, for node IDs 0 to size-1", len(ids) == 3 && ids[0] && ids[1] && ids[2], "%d different", len(ids))
	w.check("Zeebe", "the first holder has the first version, and no previous node", first, "versions 1")

	_, err := w.start(pool, 3, nil)
	var full *lease.ExhaustedError
	w.check("Zeebe", "no two tasks have one node ID, also when none is free", errors.As(err, &full), "%v", err)

	made := &drawn{ids: map[snowflake.ID]bool{}}
	for _, p := range ps {
		if err := made.draw(p); err != nil {
			return err
		}
	}

	before := ps[0].held()
	time.Sleep(3 * ttl)
	after, err := ps[0].Lease()
	w.check("dynamolock", "heartbeats keep the lock until it is released", err == nil && after.Version == before.Version && after.Renewal > before.Renewal,
		"after three lease lengths renewal %d", after.Renewal)

	// A reader that holds nothing.
	if err := ps[0].SetMetadata(map[string]string{"zone": "a"}); err != nil {
		return err
	}
	renewed := ps[0].Renewed()
	ps[0].RenewNow()
	<-renewed
	reader := w.connect()
	seen, err := reader.store.Get(w.ctx, pool, ps[0].NodeID())
	if err != nil {
		return err
	}
	w.check("dynamolock", "the data in a lock, and its owner, can be read without acquiring it",
		seen.Metadata["zone"] == "a" && seen.Task == "stranger" && seen.Holder == after.Holder, "zone %s", seen.Metadata["zone"])
	held := 0
	for l, err := range leasepool.Open(reader.store, pool).Leases(w.ctx) {
		if err == nil && l.Holder != "" {
			held++
		}
	}
	w.check("Zeebe", "all leases can be listed", held == 3, "%d held", held)

	// A store that is away for a while.
	ps[2].line.cut.Store(true)
	was := ps[2].NodeID()
	suspended, ok := w.until(2*ttl, func() bool { _, err := ps[2].Lease(); return errors.Is(err, lease.ErrSuspended) })
	w.check("dynamolock #280", "the holder knows by itself when it may no longer rely on the lock", ok && suspended <= ttl, "after %v", round(suspended))
	ps[2].line.cut.Store(false)
	resumed, ok := w.until(3*ttl, func() bool { _, err := ps[2].Lease(); return err == nil })
	w.check("dynamolock #280", "a transient error does not lose the lock", ok && ps[2].NodeID() == was, "the same node ID %v after the outage", round(resumed))

	// A crash; its node ID is the only one that will be free.
	ps[1].crash()
	dead := before
	if l, err := reader.store.Get(w.ctx, pool, ps[1].NodeID()); err == nil {
		dead = *l
	}
	begin := time.Now()
	next, err := w.start(pool, 3, wait(4*ttl))
	if err != nil {
		return err
	}
	defer func() { end(next) }()
	got := next.held()
	w.check("Zeebe", "a lease that timed out is acquired by another task, with version + 1", got.NodeID == dead.NodeID && got.Version == dead.Version+1,
		"node ID %d, version %d after %v", got.NodeID, got.Version, round(time.Since(begin)))
	w.check("CockroachDB", "the intervals of two sessions are disjoint", !got.NotBefore.Before(dead.ReservedUntil), "the first ends %v before the second begins", got.NotBefore.Sub(dead.ReservedUntil))
	_, err = ps[1].Lease()
	w.check("dynamolock #446", "the holder that was replaced does not believe that it holds", err != nil, "%v", err)
	ps[1].line.cut.Store(false)
	lost := false
	select {
	case <-ps[1].Done():
		lost = errors.Is(ps[1].Err(), lease.ErrLost)
	case <-time.After(3 * ttl):
	}
	w.check("Zeebe", "a task whose lease was taken detects it at a conditional write and stops", lost, "%v", ps[1].Err())

	for _, p := range []*process{ps[0], ps[2], next} {
		if err := made.draw(p); err != nil {
			return err
		}
	}
	w.check("Twitter's snowflake", "IDs are unique, grow, and carry their node ID", made.repeated+made.wrong == 0,
		"%d IDs of 4 holders, %d repeated, %d wrong", len(made.ids), made.repeated, made.wrong)
	return nil
}

// endings: what a lease says about the holder before.
func endings(w *world) error {
	pool := w.pool("endings")
	one, err := w.start(pool, 1, nil)
	if err != nil {
		return err
	}
	session := one.held().Holder
	if err := one.Close(); err != nil {
		return err
	}
	begin := time.Now()
	two, err := w.start(pool, 1, wait(ttl))
	if err != nil {
		return err
	}
	previous := two.held().Predecessor()
	w.check("Zeebe", "a released lease is available immediately", time.Since(begin) < ttl/2, "after %v", round(time.Since(begin)))
	w.check("Zeebe", "the lease says that the previous node was shut down gracefully, and which it was",
		previous != nil && previous.Ended == lease.EndReleased && previous.Version == 1 && previous.Session == session, "%+v", previous)

	two.crash()
	three, err := w.start(pool, 1, wait(4*ttl))
	end(two)
	if err != nil {
		return err
	}
	previous = three.held().Predecessor()
	w.check("Zeebe", "the lease says that the previous node was not", previous != nil && previous.Ended == lease.EndExpired && previous.Version == 2, "%+v", previous)

	operator := leasepool.Open(w.connect().store, pool)
	_, err = operator.ForceRelease(w.ctx, 0, 2)
	w.check("Consul", "an operator ends only the session that was looked at", err != nil, "%v", err)
	if _, err := operator.ForceRelease(w.ctx, 0, three.held().Version); err != nil {
		return err
	}
	_, ok := w.until(3*ttl, func() bool { return errors.Is(three.Err(), lease.ErrLost) })
	w.check("Consul", "an operator can end a session, and its holder learns it", ok, "%v", three.Err())
	four, err := w.start(pool, 1, wait(4*ttl))
	if err != nil {
		return err
	}
	previous = four.held().Predecessor()
	w.check("Zeebe", "the next one knows that an operator did that", previous != nil && previous.Ended == lease.EndFreed, "%+v", previous)

	// Down and up again: Zeebe's leases once began at version 0 again.
	if err := four.Close(); err != nil {
		return err
	}
	for _, size := range []int{2, 1, 2} {
		if _, err := operator.Resize(w.ctx, leasepool.Spec{Size: size}); err != nil {
			return err
		}
	}
	versions := map[int]int64{}
	for range 2 {
		p, err := w.start(pool, 2, wait(3*ttl))
		if err != nil {
			return err
		}
		defer end(p)
		versions[p.NodeID()] = p.held().Version
	}
	w.check("Zeebe #47335", "versions go on after the pool was made smaller and larger", versions[0] == 5 && versions[1] == 1, "%v", versions)
	return nil
}

// clocks: machines that disagree about the time.
func clocks(w *world) error {
	pool := w.pool("clocks")
	// The defaults of this lease allow half of Guard + ClaimGuard.
	ahead := func(by time.Duration) func(*lease.Config) {
		return func(c *lease.Config) { c.Clock = leasetest.NewClock(by) }
	}
	a, err := w.start(pool, 1, nil)
	if err != nil {
		return err
	}
	defer end(a)
	_, err = w.start(pool, 1, ahead(700*time.Millisecond))
	w.check("dynamolock", "machines that disagree about the time do not clobber each other", errors.Is(err, lease.ErrPoolExhausted), "%v", err)
	stolen, err := w.start(pool, 1, ahead(time.Hour))
	end(stolen)
	_, held := a.Lease()
	w.check("dynamolock", "a machine with a wrong clock takes no lock away", errors.Is(err, lease.ErrClockSkew) && held == nil, "%v", err)
	return nil
}
