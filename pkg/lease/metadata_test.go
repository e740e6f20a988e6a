package lease_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// What the holder says of itself changes with the next renewal, and with no
// other write.
func TestSetMetadata(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := newNetwork(1)
		cfg := config(s)
		cfg.Metadata = map[string]string{"zone": "a", "build": "7"}
		a := start(t, cfg)
		wait(6 * time.Second)
		before := s.Writes()
		if err := a.SetMetadata(map[string]string{"session_id": "s", "build": ""}); err != nil {
			t.Fatal(err)
		}
		if s.Writes() != before {
			t.Error("setting it wrote something")
		}
		<-a.Renewed()
		want := map[string]string{"zone": "a", "session_id": "s"}
		if l, err := a.Lease(); err != nil || !maps.Equal(l.Metadata, want) || !maps.Equal(item(t, s, 0).Metadata, want) {
			t.Errorf("%v, %v, the table has %v", l.Metadata, err, item(t, s, 0).Metadata)
		}
		if got := s.Writes() - before; got != 1 {
			t.Errorf("%d writes, want the renewal alone", got)
		}
		for _, r := range writesOf[lease.Renew](s)[:1] {
			if r.Metadata != nil {
				t.Errorf("a renewal before it carries %v", r.Metadata)
			}
		}
	})
}

func TestSetMetadataChecks(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := newNetwork(1)
		cfg := config(s)
		cfg.Metadata = map[string]string{"zone": "a"}
		a := start(t, cfg)
		for _, bad := range []map[string]string{{"": "x"}, {"long": strings.Repeat("x", 600)}, {"zone": "", "long": strings.Repeat("x", 600)}} {
			if err := a.SetMetadata(bad); err == nil {
				t.Errorf("%v was accepted", bad)
			}
		}
		wait(6 * time.Second)
		if got := item(t, s, 0).Metadata; !maps.Equal(got, cfg.Metadata) {
			t.Errorf("refused changes left %v", got)
		}
	})
}

// The renewal that resumes a suspended lease says what has changed; the ones
// before it do not ask.
func TestBeforeResume(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := newNetwork(1)
		a := start(t, config(s))
		called := 0
		a.BeforeResume(func() {
			called++
			if err := a.SetMetadata(map[string]string{"session_id": "two"}); err != nil {
				t.Error(err)
			}
		})
		wait(time.Minute)
		if called > 0 {
			t.Error("called though nothing was suspended")
		}
		s.SetOutage(errors.New("away"))
		wait(time.Minute)
		s.SetOutage(nil)
		<-a.Renewed()
		if l := item(t, s, 0); called == 0 || l.Metadata["session_id"] != "two" || l.Version != 1 {
			t.Errorf("called %d times, left %+v", called, l)
		}
		a.BeforeResume(nil)
	})
}

// Answers are lost, and what is said changes meanwhile: the lease goes on, and
// the table says the last of it. Another number says it from its claim on.
func TestSetMetadataWhileAnswersAreLost(t *testing.T) {
	virtual(t, func(t *testing.T) {
		s := newNetwork(2)
		cfg := config(s)
		cfg.OnLost = lease.Reacquire
		a := start(t, cfg)
		s.on(func(ctx context.Context, _ lease.Write, do func() (lease.Result, error)) (lease.Result, error) {
			return lose(ctx, do)
		})
		for _, name := range []string{"one", "two"} {
			if err := a.SetMetadata(map[string]string{"session_id": name}); err != nil {
				t.Fatal(err)
			}
			wait(8 * time.Second)
		}
		s.on(nil)
		<-a.Renewed()
		l, err := a.Lease()
		if err != nil || l.Version != 1 || l.Metadata["session_id"] != "two" || item(t, s, a.NodeID()).Metadata["session_id"] != "two" {
			t.Fatal(l, err)
		}
		if _, err := s.Memory.Write(t.Context(), lease.ForceRelease{Key: lease.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		<-a.Renewed() // by the claim
		if now, err := a.Lease(); err != nil || now.Holder == l.Holder || now.Metadata["session_id"] != "two" {
			t.Error(now, err)
		}
	})
}
