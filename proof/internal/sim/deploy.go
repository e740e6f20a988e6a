package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// deployments kills processes and makes deployments, until ctx ends.
func (w *World) deployments(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Plan.Seed, 6))
	between, _ := w.Plan.unrest()
	for sleep(ctx, time.Duration(r.Int64N(int64(between)))) == nil {
		if r.IntN(2) == 0 {
			w.kill(r)
		} else {
			w.roll(ctx, r)
		}
	}
}

// kill kills a few processes.
func (w *World) kill(r *rand.Rand) {
	for _, t := range w.all() {
		if r.IntN(4) == 0 {
			t.crash()
		}
	}
}

func (t *task) crash() {
	if p := t.present.Load(); p != nil {
		t.World.count(func(c *Counts) { c.Kills++ })
		p.kill()
	}
}

// roll deploys a release, a few tasks at a time: it starts new tasks before it tells as
// many old tasks to stop. Tasks that were told to stop before, and have not ended yet, are
// not replaced again: otherwise, an outage would multiply the tasks.
func (w *World) roll(ctx context.Context, r *rand.Rand) {
	w.count(func(c *Counts) { c.Deployments++ })
	w.release.Store(int64(r.IntN(len(w.Plan.Releases))))
	old := slices.DeleteFunc(w.all(), func(t *task) bool { return t.stopping.Err() != nil })
	_, within := w.Plan.unrest()
	step := 1 + r.IntN(len(old)+1)
	for len(old) > 0 && ctx.Err() == nil {
		n := min(step, len(old))
		for range n {
			w.deploy()
		}
		_ = sleep(ctx, time.Duration(r.Int64N(int64(within))))
		for _, t := range old[:n] {
			t.stop()
		}
		old = old[n:]
	}
}
