package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// contender is one way to make IDs.
type contender struct {
	name string
	// start makes a new generator. worker is called once for each goroutine, and returns the
	// call that this goroutine repeats. per is the number of IDs that one call makes.
	start func() (worker func() func(), per int, stop func(), err error)
}

type options struct {
	slices     int  // the number of parts of a run; only the fastest is used, since other load on the machine can only add time
	latency    bool // also measure latency, in separate runs: reading a clock costs as much as making an ID
	neighbours int  // how many other processes, each of which uses up a core, run meanwhile
}

// sample is the result of one run of one contender.
type sample struct {
	perID    float64 // ns of wall time
	cpu      float64 // ns of CPU time of all threads, per ID
	fairness float64 // calls of the slowest goroutine ÷ calls of the fastest
	p50, p99, p999,
	max float64 // ns per call
}

// result contains all runs of one contender with the same number of goroutines.
type result struct {
	name       string
	goroutines int
	samples    []sample
}

// measureAll measures the contenders in turns, so that a minute with other load on the
// machine affects all of them.
func measureAll(cs []contender, goroutines []int, runs int, d time.Duration, o options) ([]result, error) {
	stop, err := startNeighbours(o.neighbours)
	if err != nil {
		return nil, err
	}
	defer stop()
	var results []result
	for _, c := range cs {
		for _, g := range goroutines {
			results = append(results, result{name: c.name, goroutines: g})
		}
	}
	for run := range runs {
		for i := range results {
			i = (i + run*len(goroutines)) % len(results) // so that no contender is always the first
			r := &results[i]
			s, err := measure(cs[i/len(goroutines)], r.goroutines, d, o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			r.samples = append(r.samples, s)
		}
	}
	return results, nil
}

func measure(c contender, goroutines int, d time.Duration, o options) (s sample, err error) {
	worker, per, stop, err := c.start()
	if err != nil {
		return s, err
	}
	defer stop()
	loop(worker, goroutines, d/10, nil) // warm up: fill the peers' pools and use up our catch-up window
	for range max(o.slices, 1) {
		one := timed(worker, per, goroutines, d/time.Duration(max(o.slices, 1)))
		if s.perID == 0 || one.perID < s.perID {
			s = one
		}
	}
	if o.latency {
		var h histogram
		loop(worker, goroutines, d, &h)
		s.p50, s.p99, s.p999, s.max = h.quantile(.5), h.quantile(.99), h.quantile(.999), h.quantile(1)
	}
	return s, nil
}

func timed(worker func() func(), per, goroutines int, d time.Duration) (s sample) {
	cpu := cpuTime()
	calls, took := loop(worker, goroutines, d, nil)
	cpu = cpuTime() - cpu
	total, least, most := 0, calls[0], 0
	for _, n := range calls {
		total, least, most = total+n, min(least, n), max(most, n)
	}
	s.perID = float64(took) / float64(total*per)
	s.cpu = float64(cpu) / float64(total*per)
	s.fairness = float64(least) / float64(most)
	return s
}

var origin = time.Now()

// loop makes each goroutine repeat its call for the duration d. It returns the number of
// calls of each goroutine. If h is not nil, loop adds the time of each call to it.
func loop(worker func() func(), goroutines int, d time.Duration, h *histogram) (calls []int, took time.Duration) {
	var (
		stop  atomic.Bool
		ready sync.WaitGroup
		wg    sync.WaitGroup
		mu    sync.Mutex
		begin = make(chan struct{})
	)
	calls = make([]int, goroutines)
	for i := range goroutines {
		ready.Add(1)
		wg.Go(func() {
			call, n := worker(), 0
			var own histogram
			ready.Done()
			<-begin
			if h == nil {
				for !stop.Load() {
					call()
					n++
				}
			} else {
				for last := time.Since(origin); !stop.Load(); n++ {
					call()
					now := time.Since(origin)
					own.add(now - last)
					last = now
				}
				mu.Lock()
				h.merge(&own)
				mu.Unlock()
			}
			calls[i] = n
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	return calls, time.Since(start)
}

// cpuTime returns the CPU time of all threads of this process, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
