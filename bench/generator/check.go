package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// verdict describes the IDs that many goroutines made at the same time.
type verdict struct {
	name       string
	ids        int
	duplicates int
	disorder   int           // IDs that are less than an earlier ID of the same goroutine
	ahead      time.Duration // how far, at most, an ID was ahead of the wall clock after the call
}

func (v verdict) clean() bool { return v.duplicates == 0 && v.disorder == 0 && v.ahead <= 0 }

// check makes per IDs in each goroutine, and judges all of them. The upper bits of an ID,
// above the lowest 22, must be the milliseconds since epoch, which is in Unix ms.
func check(name string, next func() (int64, error), epoch int64, goroutines, per int) (verdict, error) {
	v := verdict{name: name, ids: goroutines * per}
	all := make([]int64, v.ids)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for g := range goroutines {
		own := all[g*per : (g+1)*per]
		wg.Go(func() {
			disorder, ahead := 0, time.Duration(-1<<62)
			for i := range own {
				id, err := next()
				now := time.Now()
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				if i > 0 && id <= own[i-1] {
					disorder++
				}
				ahead = max(ahead, time.UnixMilli(id>>22+epoch).Sub(now))
				own[i] = id
			}
			mu.Lock()
			defer mu.Unlock()
			v.disorder += disorder
			if v.ahead == 0 || ahead > v.ahead {
				v.ahead = ahead
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			v.duplicates++
		}
	}
	return v, failed
}

// checkAll checks our generator, the reference, and the two generators with a planted bug. It
// returns an error if the harness does not catch the planted bugs.
func checkAll() ([]verdict, error) {
	agent, err := lease.Start(context.Background(), lease.Config{
		Pool: "check", Store: leasetest.NewMemory("check", 1024), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	defer agent.Close()
	g, err := snowflake.New(agent)
	if err != nil {
		return nil, err
	}
	bwmarrin.NodeBits, bwmarrin.StepBits = 10, 12
	node, err := bwmarrin.NewNode(1)
	if err != nil {
		return nil, err
	}
	two, borrow := new(twoWords), new(borrows)
	var all []verdict
	for _, c := range []struct {
		name  string
		next  func() (int64, error)
		epoch int64
		bad   func(verdict) bool
	}{
		{ours, func() (int64, error) { id, err := g.Next(); return int64(id), err }, plantedEpoch, nil},
		{theirs, func() (int64, error) { return int64(node.Generate()), nil }, bwmarrin.Epoch, nil},
		{"planted: two words", func() (int64, error) { return two.next(), nil }, plantedEpoch, func(v verdict) bool { return v.duplicates > 0 }},
		{"planted: borrows time", func() (int64, error) { return borrow.next(), nil }, plantedEpoch, func(v verdict) bool { return v.ahead > time.Millisecond }},
	} {
		v, err := check(c.name, c.next, c.epoch, 64, 20_000)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if c.bad != nil && !c.bad(v) {
			return nil, fmt.Errorf("%s was not caught: %+v", c.name, v)
		}
		all = append(all, v)
	}
	return all, nil
}
