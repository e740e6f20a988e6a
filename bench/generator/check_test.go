package main

import (
	"testing"
	"time"
)

// The harness catches the planted bugs, and finds no bug in our generator.
func TestTheHarnessCatchesPlantedBugs(t *testing.T) {
	all, err := checkAll() // returns an error if the harness misses a planted bug
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		t.Logf("%+v", v)
	}
	if v := all[0]; v.name != ours || !v.clean() {
		t.Errorf("%+v", v)
	}
}

func TestHistogram(t *testing.T) {
	var h, other histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	other.add(5 * time.Second)
	h.merge(&other)
	for q, want := range map[float64]time.Duration{.5: 500 * time.Microsecond, .99: 990 * time.Microsecond, 1: 5 * time.Second} {
		if got := h.quantile(q); got < float64(want) || got > float64(want)*1.07 {
			t.Errorf("quantile %v is %v, want about %v", q, time.Duration(got), want)
		}
	}
	for i := range 10_000 {
		d := time.Duration(i * i)
		if b := bucket(d); uint64(d) > upper(b) || float64(upper(b)) > 1.07*float64(d)+1 {
			t.Fatalf("%d is in bucket %d, up to %d", d, b, upper(b))
		}
	}
}
