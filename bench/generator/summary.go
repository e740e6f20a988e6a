package main

import (
	"fmt"
	"math"
	"slices"
)

// figure is the median of several runs, with the smallest and the largest value.
type figure struct{ median, least, most float64 }

func summarise(values []float64) figure {
	if len(values) == 0 {
		return figure{math.NaN(), math.NaN(), math.NaN()}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return figure{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

// of returns the figure for one kind of value of the samples.
func (r result) of(value func(sample) float64) figure {
	var all []float64
	for _, s := range r.samples {
		all = append(all, value(s))
	}
	return summarise(all)
}

// over returns the figure for r ÷ other. It divides run by run, since load on the machine
// slows down both contenders in the same run.
func (r result) over(other result, value func(sample) float64) figure {
	var all []float64
	for i := range min(len(r.samples), len(other.samples)) {
		all = append(all, value(r.samples[i])/value(other.samples[i]))
	}
	return summarise(all)
}

func find(results []result, name string, goroutines int) result {
	for _, r := range results {
		if r.name == name && r.goroutines == goroutines {
			return r
		}
	}
	return result{}
}

func perID(s sample) float64    { return s.perID }
func cpu(s sample) float64      { return s.cpu }
func fairness(s sample) float64 { return s.fairness }
func p999(s sample) float64     { return s.p999 / 1e6 }
func slowest(s sample) float64  { return s.max / 1e6 }

// capNs is the shortest time per ID that the format allows, in ns: 4,096 IDs in a
// millisecond.
const capNs = 1e6 / 4096

func efficiency(s sample) float64 { return capNs / s.perID }

func (f figure) String() string { return f.format(1) }

// format returns the median and, in small type, the smallest and the largest value.
func (f figure) format(digits int) string {
	if math.IsNaN(f.median) {
		return ""
	}
	return fmt.Sprintf("%.*f <sub>%.*f–%.*f</sub>", digits, f.median, digits, f.least, digits, f.most)
}
