package lease_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A holder's metadata changes with the next renewal, without any other write.
func TestSetMetadata(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.Metadata = map[string]string{"zone": "a", "build": "7"}
		a := fixture.Start(t, cfg)
		<-a.Renewed()
		before := s.Writes()
		if err := a.SetMetadata(map[string]string{"session_id": "s", "build": ""}); err != nil {
			t.Fatal(err)
		}
		if s.Writes() != before {
			t.Error("setting it wrote something")
		}
		<-a.Renewed()
		want := map[string]string{"zone": "a", "session_id": "s"}
		if l, err := a.Lease(); err != nil || !maps.Equal(l.Metadata, want) || !maps.Equal(fixture.Item(t, s, 0).Metadata, want) {
			t.Errorf("%v, %v, the table has %v", l.Metadata, err, fixture.Item(t, s, 0).Metadata)
		}
		if got := s.Writes() - before; got != 1 {
			t.Errorf("%d writes, want the renewal alone", got)
		}
		for _, r := range fixture.WritesOf[protocol.Renew](s)[:1] {
			if r.Metadata != nil {
				t.Errorf("a renewal before it carries %v", r.Metadata)
			}
		}
	})
}

func TestSetMetadataChecks(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.Metadata = map[string]string{"zone": "a"}
		a := fixture.Start(t, cfg)
		for _, bad := range []map[string]string{{"": "x"}, {"long": strings.Repeat("x", 600)}, {"zone": "", "long": strings.Repeat("x", 600)}} {
			if err := a.SetMetadata(bad); err == nil {
				t.Errorf("%v was accepted", bad)
			}
		}
		fixture.Wait(6 * time.Second)
		if got := fixture.Item(t, s, 0).Metadata; !maps.Equal(got, cfg.Metadata) {
			t.Errorf("refused changes left %v", got)
		}
	})
}

// The renewal that resumes a suspended lease contains the changes made by the function
// that BeforeResume set. Renewals before the suspension do not call the function.
func TestBeforeResume(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		var called atomic.Int32
		siblings.BeforeResume(a, func() {
			called.Add(1)
			if err := a.SetMetadata(map[string]string{"session_id": "two"}); err != nil {
				t.Error(err)
			}
		})
		fixture.Wait(time.Minute)
		if called.Load() > 0 {
			t.Error("called though nothing was suspended")
		}
		s.SetOutage(errors.New("away"))
		fixture.Wait(time.Minute)
		s.SetOutage(nil)
		<-a.Renewed()
		if l := fixture.Item(t, s, 0); called.Load() == 0 || l.Metadata["session_id"] != "two" || l.Version != 1 {
			t.Errorf("called %d times, left %+v", called.Load(), l)
		}
		siblings.BeforeResume(a, nil)
	})
}

// If the metadata changes while answers are lost, the lease continues, and the table ends
// up with the latest metadata. The claim of another node ID also writes the latest
// metadata.
func TestSetMetadataWhileAnswersAreLost(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		a := fixture.Start(t, cfg)
		s.On(func(ctx context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			return fixture.Lose(ctx, do)
		})
		for _, name := range []string{"one", "two"} {
			if err := a.SetMetadata(map[string]string{"session_id": name}); err != nil {
				t.Fatal(err)
			}
			fixture.Wait(8 * time.Second)
		}
		s.On(nil)
		<-a.Renewed()
		l, err := a.Lease()
		if err != nil || l.Version != 1 || l.Metadata["session_id"] != "two" || fixture.Item(t, s, a.NodeID()).Metadata["session_id"] != "two" {
			t.Fatal(l, err)
		}
		if _, err := s.Memory.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		<-a.Renewed() // closed by the claim
		if now, err := a.Lease(); err != nil || now.Holder == l.Holder || now.Metadata["session_id"] != "two" {
			t.Error(now, err)
		}
	})
}

// SetMetadata accepts any metadata that Start accepted, since the task name that Start
// detected is not included in the size.
func TestSetMetadataTakesWhatStartTook(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		cfg := fixture.Config(fixture.NewNetwork(1))
		cfg.Task, cfg.Metadata = "", map[string]string{"build": strings.Repeat("x", 505), "x": "1"}
		a := fixture.Start(t, cfg)
		for _, changes := range []map[string]string{{"x": "2"}, {"x": ""}, {"x": "3"}} {
			if err := a.SetMetadata(changes); err != nil {
				t.Errorf("%v: got %v", changes, err)
			}
		}
		if err := a.SetMetadata(map[string]string{"x": "12"}); err == nil {
			t.Error("513 bytes were taken")
		}
	})
}

// The entries that the agent adds on ECS do not count against the user's bytes, and give way
// where room is short. They come back when there is room, unless the user has set them.
func TestSetMetadataOnECS(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Cluster":"prod","TaskARN":"arn:aws:ecs:eu-west-1:123456789012:task/prod/0123","AvailabilityZone":"eu-west-1b"}`)
	}))
	defer server.Close()
	t.Setenv("ECS_CONTAINER_METADATA_URI_V4", server.URL)
	cfg := fixture.Config(fixture.NewNetwork(1))
	cfg.Task = ""
	a := fixture.Start(t, cfg)
	full := strings.Repeat("x", 505)
	for _, c := range []struct{ changes, want map[string]string }{
		{map[string]string{"build": full, "x": "1"}, map[string]string{"build": full, "x": "1"}},
		{map[string]string{"build": "7", "x": ""}, map[string]string{"build": "7", "zone": "eu-west-1b", "cluster": "prod"}},
		{map[string]string{"zone": "mine", "cluster": ""}, map[string]string{"build": "7", "zone": "mine"}},
		{map[string]string{"zone": ""}, map[string]string{"build": "7"}},
	} {
		if err := a.SetMetadata(c.changes); err != nil {
			t.Errorf("%v: got %v", c.changes, err)
		}
		renewed := a.Renewed()
		a.RenewNow()
		<-renewed
		if l, err := a.Lease(); err != nil || !maps.Equal(l.Metadata, c.want) {
			t.Errorf("after %v: got %v, %v, want %v", c.changes, l.Metadata, err, c.want)
		}
	}
}

// RenewNow brings one renewal forward, however often it is called. The renewal after that
// one comes at a random time, as the first renewal after a start does, so that agents
// that call RenewNow at the same moment get out of step.
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
		if took := time.Since(began); took > time.Millisecond || fixture.Item(t, s, 0).Metadata["session_id"] != "s" {
			t.Errorf("renewed after %v, the table has %v", took, fixture.Item(t, s, 0).Metadata)
		}
		synctest.Wait()
		if got := s.Writes() - before; got > 2 {
			t.Errorf("%d writes, want 2 at most", got)
		}
		<-a.Renewed()
		if took := time.Since(began); took < 2500*time.Millisecond || took > 7501*time.Millisecond {
			t.Errorf("the next renewal came after %v, want 2.5 to 7.5 s", took)
		}
	})
}

// While the store does not answer, RenewNow does not cause more attempts.
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

// A claim of another node ID has the metadata that the function of BeforeResume has set,
// also if the lost lease would not have expired yet.
func TestBeforeResumeBeforeAnotherClaim(t *testing.T) {
	for name, size := range map[string]int{"after the expiry": 1, "at once": 2} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(size)
				cfg := fixture.Config(s)
				cfg.OnLost = lease.Reacquire
				a := fixture.Start(t, cfg)
				if err := a.SetMetadata(map[string]string{"session": "old"}); err != nil {
					t.Fatal(err)
				}
				siblings.BeforeResume(a, func() {
					if err := a.SetMetadata(map[string]string{"session": "new"}); err != nil {
						t.Error(err)
					}
				})
				fixture.Wait(10 * time.Second)
				pool := leasepool.Open(s, "orders")
				if _, err := pool.ForceRelease(t.Context(), a.NodeID(), 1); err != nil {
					t.Fatal(err)
				}
				fixture.Wait(2 * time.Minute) // a pool of one node ID: it is reserved for a while
				claims := fixture.WritesOf[protocol.Claim](s)
				if len(claims) < 2 {
					t.Fatalf("got %d claims, want another one", len(claims))
				}
				for _, c := range claims[1:] {
					if c.Metadata["session"] != "new" {
						t.Errorf("got a claim with the metadata %v, want the function's", c.Metadata)
					}
				}
				if _, err := a.Lease(); err != nil {
					t.Errorf("got %v, want a lease", err)
				}
			})
		})
	}
}
