package main

import (
	"testing"
	"time"
)

// exec never sends SIGTERM while the next renewal is still due, however rarely the lease is
// renewed and however long the guard is.
func TestGraceLeavesTimeToRenew(t *testing.T) {
	for _, flags := range []terms{
		{ttl: 15 * time.Second},
		{ttl: 15 * time.Second, renewEvery: time.Second},
		{ttl: 15 * time.Second, renewEvery: 7500 * time.Millisecond},
		{ttl: 15 * time.Second, renewEvery: 7500 * time.Millisecond, guard: 6 * time.Second},
		{ttl: time.Minute, renewEvery: 30 * time.Second, guard: 20 * time.Second},
	} {
		if err := flags.check(); err != nil {
			t.Fatal(err)
		}
		guard := flags.guard
		if guard == 0 {
			guard = 2 * time.Second
		}
		for _, asked := range []time.Duration{0, time.Second, 5 * time.Second, 6500 * time.Millisecond} {
			grace, err := flags.grace(asked)
			if err != nil {
				continue // refused
			}
			// The renewal may be sent a tenth of the interval late, and its answer take as long.
			if end, due := flags.ttl-guard-grace, flags.every()+flags.every()/5; end < due {
				t.Errorf("%+v with --grace %v: got SIGTERM %v after a renewal, want at least %v", flags, asked, end, due)
			}
		}
	}
}
