package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
)

// RenewNow brings one renewal forward, however often it is called, and the next
// one is due when it always is.
func TestRenewNow(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		if err := a.SetMetadata(map[string]string{"session_id": "s"}); err != nil {
			t.Fatal(err)
		}
		before := s.Writes()
		began := time.Now()
		renewed := a.Renewed()
		a.RenewNow()
		a.RenewNow()
		<-renewed
		if took := time.Since(began); took > time.Millisecond || item(t, s, 0).Metadata["session_id"] != "s" {
			t.Errorf("renewed after %v, the table has %v", took, item(t, s, 0).Metadata)
		}
		synctest.Wait()
		if got := s.Writes() - before; got > 2 {
			t.Errorf("%d writes, want 2 at most", got)
		}
		<-a.Renewed()
		if took := time.Since(began); took < 4*time.Second {
			t.Errorf("the next renewal came after %v, want about 5 s", took)
		}
	})
}

// While the store is away, RenewNow does not add to the attempts.
func TestRenewNowInAnOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		sent := 0
		s.On(func(context.Context, protocol.Write, func() (protocol.Result, error)) (protocol.Result, error) {
			sent++
			return protocol.Result{}, errors.New("away")
		})
		for range 10_000 {
			a.RenewNow()
			fixture.Wait(time.Millisecond)
		}
		s.On(nil)
		if sent > 60 {
			t.Errorf("%d attempts in 10 s, want those of the backoff alone", sent)
		}
	})
}
