package main

import (
	"sync"
	"sync/atomic"
	"time"
)

const floor = "floor: time.Since + atomic.Add"

// floors returns operations that every generator needs, so that no generator can be
// faster. A Next with a fence and ordered IDs needs one reading of the monotonic clock
// and one atomic addition.
func floors() []contender {
	type padded struct {
		_ [128]byte
		n atomic.Uint64
		_ [128]byte
	}
	return []contender{
		shared(floor, 1, func() (func(), error) {
			w := new(padded)
			return func() { w.n.Add(uint64(time.Since(origin)) >> 63) }, nil
		}),
		shared("floor: time.Now + atomic.Add", 1, func() (func(), error) {
			w := new(padded)
			return func() { w.n.Add(uint64(time.Now().UnixNano()) >> 63) }, nil
		}),
		shared("floor: time.Since", 1, func() (func(), error) {
			return func() { _ = time.Since(origin) }, nil
		}),
		shared("floor: atomic.Add", 1, func() (func(), error) {
			w := new(padded)
			return func() { w.n.Add(1) }, nil
		}),
		shared("floor: mutex", 1, func() (func(), error) {
			var mu sync.Mutex
			return func() { mu.Lock(); mu.Unlock() }, nil //nolint:staticcheck // the lock is measured
		}),
		{"floor: fill a slice of 1000", func() (func() func(), int, func(), error) {
			return func() func() {
				buf := make([]int64, 1000)
				n := int64(0)
				return func() {
					for i := range buf {
						buf[i] = n + int64(i)
					}
					n++
				}
			}, 1000, none, nil
		}},
	}
}
