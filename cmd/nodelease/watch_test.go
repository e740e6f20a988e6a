package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A table that does not answer is told once, and that it answers again; a short
// silence is not.
func TestWatchTellsSilence(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		store := fixture.NewNetwork(1)
		var told []bool
		w := &watch{pool: leasepool.Open(store, "orders"), every: time.Second, length: time.Minute, silent: func(s bool) { told = append(told, s) }}
		for at, away := range map[time.Duration]bool{10 * time.Second: true, 13 * time.Second: false, 20 * time.Second: true, 40 * time.Second: false} {
			time.AfterFunc(at, func() {
				var err error
				if away {
					err = errors.New("away")
				}
				store.SetOutage(err)
			})
		}
		if err := w.lines(t.Context(), func(*listed, []change) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told, []bool{true, false}) {
			t.Error(told)
		}
	})
}
