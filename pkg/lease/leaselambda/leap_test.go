package leaselambda_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaselambda"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// leap is the clock of a machine that sleeps for an hour at a certain reading of its
// monotonic clock.
type leap struct {
	lease.Clock
	mu   sync.Mutex
	left int // readings until the machine sleeps; 0 means never
	by   time.Duration
}

func (l *leap) Monotonic() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		if l.left--; l.left == 0 {
			l.by += time.Hour
		}
	}
	return l.Clock.Monotonic() + l.by
}

func (l *leap) Wall() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Clock.Wall().Add(l.by)
}

// A freeze at any reading of the clock, even between the check of the lease and the ID,
// costs only another renewal. The invocation does not fail.
func TestAFreezeInsideOfNext(t *testing.T) {
	for look := 1; look <= 24; look++ {
		t.Run(fmt.Sprint("look ", look), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(4)
				cfg := config(s)
				clock := &leap{Clock: snowflake.SystemClock()}
				cfg.Clock = clock
				h := leaselambda.Wrap(func(ctx context.Context, _ struct{}) (snowflake.ID, error) {
					return leaselambda.Generator(ctx).Next()
				}, cfg)
				if _, err := invoke(t, h, `{}`); err != nil {
					t.Fatal(err)
				}
				clock.mu.Lock()
				clock.left = look
				clock.mu.Unlock()
				if _, err := invoke(t, h, `{}`); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
