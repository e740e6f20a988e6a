package lease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// seedsCounted counts how often each number was seeded.
type seedsCounted struct {
	lease.Store
	mu    sync.Mutex
	times map[int]int
	tries int
}

func (s *seedsCounted) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	res, err := s.Store.Write(ctx, w)
	if w, ok := w.(protocol.Seed); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tries++
		if res.Applied {
			s.times[w.NodeID]++
		}
	}
	return res, err
}

// A fleet starts at once on an empty table, and every agent may seed: each number
// is seeded once, and each agent gets one.
func TestFleetSeeds(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s lease.Store, _ func(int)) {
		const agents = 100
		counted := &seedsCounted{Store: s, times: map[int]int{}}
		var mu sync.Mutex
		holders := map[int]int{}
		fixture.Together(agents, func(int) {
			cfg := fixture.Config(counted)
			cfg.SeedIfMissing, cfg.Wait = &leasepool.Spec{Size: agents}, 20*time.Second
			a, err := lease.Start(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = a.Close() })
			mu.Lock()
			defer mu.Unlock()
			holders[a.NodeID()]++
		})
		for n := range agents {
			if counted.times[n] != 1 || holders[n] != 1 {
				t.Errorf("node %d was seeded %d times and has %d holders", n, counted.times[n], holders[n])
			}
		}
		if len(counted.times) != agents || len(holders) != agents {
			t.Errorf("%d numbers seeded, %d held", len(counted.times), len(holders))
		}
		t.Logf("%d writes to seed %d numbers", counted.tries, agents)
	})
}
