package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets. The width of a bucket is at most 1/16 of the
// durations in it, so quantiles are accurate to 6 %. The largest duration is exact.
type histogram struct {
	count [64 * 16]int
	total int
	max   time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.count[bucket(d)]++
	h.total++
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.count {
		h.count[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// quantile returns the upper end of the bucket that contains the q-quantile, in ns. For q = 1,
// it returns the largest value.
func (h *histogram) quantile(q float64) float64 {
	if q == 1 {
		return float64(h.max)
	}
	left := int(q * float64(h.total))
	for i, n := range h.count {
		if left -= n; left < 0 {
			return float64(upper(i))
		}
	}
	return float64(h.max)
}

// bucket returns the index of d's bucket: the exponent of d, followed by the four bits after
// the first bit of d.
func bucket(d time.Duration) int {
	v := uint64(max(d, 1))
	e := bits.Len64(v) - 1
	if e < 4 {
		return int(v)
	}
	return e<<4 | int(v>>(e-4)&15)
}

func upper(i int) uint64 {
	if i < 4<<4 { // each value below 16 has a bucket of its own, and the buckets from 16 to 63 stay empty
		return uint64(i)
	}
	e := i >> 4
	return uint64(16|i&15+1) << (e - 4) // 16|15+1 carries into the next exponent
}
