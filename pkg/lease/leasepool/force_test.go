package leasepool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
)

func TestForceRelease(t *testing.T) {
	fixture.OnEachStore(t, func(t *testing.T, s protocol.Store, _ func(int)) {
		p := seeded(t, s, 4, 0)
		held := fixture.Hold(t, s, 2, time.Now(), 15*time.Second)

		_, err := p.ForceRelease(t.Context(), 2, held.Version-1)
		errorHas(t, err, "version 1", "not 0", "look again")
		_, err = p.ForceRelease(t.Context(), 9, 1)
		errorHas(t, err, "no node 9")
		for _, node := range []int{-1, 65536} {
			_, err = p.ForceRelease(t.Context(), node, 1)
			errorHas(t, err, "0 to 65535")
			if strings.Contains(err.Error(), "%!") {
				t.Errorf("force release of node %d: got the unformatted %q", node, err)
			}
		}
		for range 2 { // the second call tests the case that the first answer was lost
			l, err := p.ForceRelease(t.Context(), 2, held.Version)
			if err != nil || l.Holder != "" || l.Version != held.Version || !l.ReservedUntil.Equal(held.ReservedUntil) {
				t.Errorf("force release: %+v, %v", l, err)
			}
		}
		if res, err := s.Write(t.Context(), renew(held, time.Now())); err != nil || res.Applied {
			t.Errorf("the holder renews: %+v, %v", res, err)
		}
	})
}
