package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/fixture"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// The leases that people know by name: a holder keeps its number over many
// renewals, one conditional write each, and its span never ends before it does.
func TestNamedLeases(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  lease.Config
		d    time.Duration // from a renewal's sending to the deadline
	}{
		{"10 s, 3 s, 2 s", lease.Config{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Guard: 2 * time.Second}, 8 * time.Second},
		{"the default, 15 s", lease.Config{}, 13 * time.Second},
		{"5 s", lease.Config{TTL: 5 * time.Second}, 4 * time.Second},
		{"economy, 5 min", lease.Config{TTL: 5 * time.Minute}, 298 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(8)
				var ev events
				cfg := c.cfg
				cfg.Store, cfg.Pool, cfg.OnEvent, cfg.Logger = s, "orders", ev.add, config(s).Logger
				a := start(t, cfg)
				node, g := a.NodeID(), ids(t, a)
				every := cfg.RenewEvery
				if every == 0 {
					every = max(cfg.TTL, map[bool]time.Duration{true: lease.DefaultTTL}[cfg.TTL == 0]) / 3
				}
				for range 100 {
					fixture.Wait(every)
					l, err := a.Lease()
					if err != nil || l.NodeID != node || l.Version != 1 {
						t.Fatal(l, err)
					}
					id, err := g.Next()
					if err != nil || id.Node() != node || !id.Time().After(l.NotBefore) || id.Time().After(l.ReservedUntil) {
						t.Fatal(id, err, l)
					}
				}
				for _, e := range ev.of(lease.EventRenewed) {
					if e.Left != c.d {
						t.Fatalf("%v left after a renewal, want %v", e.Left, c.d)
					}
				}
				if n := len(fixture.WritesOf[protocol.Renew](s)); n < 90 || n > 112 {
					t.Errorf("%d renewals in 100 times RenewEvery", n)
				}
				if got := ev.of(lease.EventSuspended, lease.EventLost, lease.EventUnanswered); len(got) > 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestCloseFencesThenReleases(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := start(t, config(s))
		g := ids(t, a)
		fixture.Wait(7 * time.Second)
		last, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Second)
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Release); ok {
				if id, err := g.TryNext(); err == nil {
					t.Errorf("an ID, %v, was made while the release was under way", id)
				}
			}
			return do()
		})
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Fatal(err)
		}
		l := item(t, s, 0)
		if l.Holder != "" || !l.ReservedUntil.Equal(last.Time()) {
			t.Errorf("left %+v, want it free and reserved until %v", l, last.Time())
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrClosed) || !errors.Is(a.Err(), lease.ErrClosed) {
			t.Error(err, a.Err())
		}
		if _, err := g.Next(); err == nil {
			t.Error("an ID after Close")
		}
		<-a.Done()
		// The next holder need not wait.
		b := start(t, config(s))
		if l, err := b.Lease(); err != nil || l.Version != 2 || !l.NotBefore.Equal(last.Time()) {
			t.Error(l, err)
		}
	})
}

// A session that stamped nothing hands back its whole span, and no more.
func TestCloseOfAnUnusedLease(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		before := item(t, s, 0).ReservedUntil
		a := start(t, config(s))
		fixture.Wait(time.Minute)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got := item(t, s, 0).ReservedUntil; !got.Equal(before) {
			t.Errorf("reserved until %v, want %v", got, before)
		}
	})
}

func TestCloseReportsAReleaseWithoutAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := start(t, config(s))
		s.SetOutage(errors.New("away"))
		began := time.Now()
		if err := a.Close(); err == nil || time.Since(began) > 4*time.Second {
			t.Error(err, time.Since(began))
		}
	})
}

// An outage longer than the lease: the holder suspends at its deadline, makes
// no ID, and resumes the same version when the store is back.
func TestSuspendAndResume(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var ev events
		cfg := config(s)
		cfg.OnEvent = ev.add
		a := start(t, cfg)
		g := ids(t, a)
		was, err := a.Lease()
		if err != nil {
			t.Fatal(err)
		}
		s.SetOutage(errors.New("away"))
		fixture.Wait(13*time.Second - time.Millisecond)
		if _, err := a.Lease(); err != nil {
			t.Fatalf("a millisecond before the deadline: %v", err)
		}
		if _, err := g.Next(); err != nil {
			t.Fatalf("a millisecond before the deadline: %v", err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Fatalf("at the deadline: %v", err)
		}
		if _, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
			t.Fatalf("at the deadline: %v", err)
		}
		fixture.Wait(10 * time.Minute)
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		s.SetOutage(nil)
		fixture.Wait(2 * time.Second)
		now, err := a.Lease()
		if err != nil || now.Version != was.Version || now.NodeID != was.NodeID || now.Holder != was.Holder {
			t.Fatalf("%+v, %v, want %+v again", now, err, was)
		}
		if _, err := g.Next(); err != nil {
			t.Error(err)
		}
		if got, want := ev.kinds(lease.EventSuspended, lease.EventResumed), []lease.EventKind{lease.EventSuspended, lease.EventResumed}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestOnExpiryStop(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		cfg := config(s)
		cfg.OnExpiry = lease.Stop
		a := start(t, cfg)
		s.SetOutage(errors.New("away"))
		fixture.Wait(13*time.Second - time.Millisecond)
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		fixture.Wait(time.Millisecond)
		<-a.Done()
		if !errors.Is(a.Err(), lease.ErrLost) {
			t.Error(a.Err())
		}
		s.SetOutage(nil)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := item(t, s, a.NodeID()); l.Holder != "" {
			t.Errorf("not given back: %+v", l)
		}
	})
}

// A watchdog apart from the loop: a request that hangs for ever does not hide
// that time is up.
func TestHungRequestSuspends(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var ev events
		cfg := config(s)
		cfg.OnEvent = ev.add
		release := make(chan struct{})
		defer close(release)
		a := start(t, cfg)
		s.On(func(context.Context, protocol.Write, func() (protocol.Result, error)) (protocol.Result, error) {
			<-release // not even the context's end is heard
			return protocol.Result{}, errors.New("gone")
		})
		fixture.Wait(13 * time.Second)
		if len(ev.of(lease.EventSuspended)) != 1 {
			t.Error("not announced at the deadline")
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Error(err)
		}
		s.On(nil)
	})
}

// taken lets someone else have the number of a suspended agent.
func taken(t *testing.T, s *fixture.Network, a *lease.Agent) {
	t.Helper()
	s.SetOutage(errors.New("away"))
	fixture.Wait(20 * time.Second)
	s.SetOutage(nil)
	now := time.Now()
	res, err := s.Memory.Write(t.Context(), protocol.Claim{
		Key: protocol.Key{Pool: "orders", NodeID: a.NodeID()}, Session: "thief", Task: "another task", At: now, ClaimGuard: time.Second,
		ExpiresAt: now.Add(15 * time.Second), ReservedUntil: now.Add(16 * time.Second),
	})
	if err != nil || !res.Applied {
		t.Fatal(res, err)
	}
}

func TestLost(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := start(t, config(s))
		g := ids(t, a)
		taken(t, s, a)
		<-a.Done()
		if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) || !errors.Is(a.Err(), lease.ErrLost) {
			t.Error(err, a.Err())
		}
		if _, err := g.Next(); err == nil {
			t.Error("an ID after the loss")
		}
		sent := len(fixture.WritesOf[protocol.Renew](s))
		fixture.Wait(time.Minute)
		if n := len(fixture.WritesOf[protocol.Renew](s)); n != sent {
			t.Error("it renews after the loss")
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := item(t, s, 0); l.Holder != "thief" {
			t.Errorf("Close touched another's lease: %+v", l)
		}
		if n := len(fixture.WritesOf[protocol.Release](s)); n != 0 {
			t.Errorf("%d releases of what is another's, a write unit each", n)
		}
	})
}

func TestReacquire(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := config(s)
		cfg.OnLost = lease.Reacquire
		a := start(t, cfg)
		g := ids(t, a)
		first := a.NodeID()
		before, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		taken(t, s, a)
		fixture.Wait(3 * time.Second)
		l, err := a.Lease()
		if err != nil || l.NodeID == first || a.NodeID() == first || a.Err() != nil {
			t.Fatalf("%+v, %v, %v; it had %d", l, err, a.Err(), first)
		}
		after, err := g.Next()
		if err != nil || after.Node() == first || after <= before {
			t.Error(before, after, err)
		}
		fixture.Wait(time.Minute)
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := item(t, s, l.NodeID); l.Holder != "" {
			t.Errorf("not given back: %+v", l)
		}
	})
}

// Close while another number is being taken leaves none behind.
func TestCloseWhileReacquiring(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := config(s)
		cfg.OnLost = lease.Reacquire
		a := start(t, cfg)
		claiming := make(chan struct{})
		closed := make(chan error, 1)
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if _, ok := w.(protocol.Claim); ok {
				res, err := do()
				close(claiming)
				<-ctx.Done() // the answer comes when Close has begun
				return res, err
			}
			return do()
		})
		taken(t, s, a)
		<-claiming
		s.On(nil)
		go func() { closed <- a.Close() }()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for n := range 2 {
			if l := item(t, s, n); l.Holder != "" && l.Holder != "thief" {
				t.Errorf("left behind: %+v", l)
			}
		}
	})
}

func TestStartContextEndsNothing(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a, err := lease.Start(ctx, config(fixture.NewNetwork(1)))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		fixture.Wait(time.Hour)
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// With a larger reserve, IDs go on through an outage; exclusivity does not.
func TestLargerReserve(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := config(s)
		cfg.Reserve = 10 * time.Minute
		a := start(t, cfg)
		g := ids(t, a)
		s.SetOutage(errors.New("away"))
		fixture.Wait(10*time.Minute - 2*time.Second - time.Millisecond)
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Error(err)
		}
		if _, err := g.Next(); err != nil {
			t.Error(err)
		}
		fixture.Wait(time.Millisecond)
		if _, err := g.Next(); !errors.Is(err, snowflake.ErrFenced) {
			t.Error(err)
		}
	})
}

func TestSlowHookDelaysNoRenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		cfg := config(leasetest.NewMemory("orders", 1))
		var seen []lease.EventKind
		cfg.OnEvent = func(e lease.Event) {
			time.Sleep(30 * time.Second) // virtual
			seen = append(seen, e.Kind)
		}
		a := start(t, cfg)
		for range 20 {
			fixture.Wait(10 * time.Second)
			if _, err := a.Lease(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Hour)
		if len(seen) < 20 || seen[0] != lease.EventClaimed || seen[len(seen)-1] != lease.EventReleased {
			t.Errorf("%v", seen)
		}
	})
}

// Two generators on one agent share one timeline.
func TestTwoGenerators(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		a := start(t, config(leasetest.NewMemory("orders", 1)))
		one, two := ids(t, a), ids(t, a)
		seen := map[snowflake.ID]bool{}
		for range 6000 {
			for _, g := range []*snowflake.Generator{one, two} {
				id, err := g.Next()
				if err != nil || seen[id] {
					t.Fatal(id, err, seen[id])
				}
				seen[id] = true
			}
		}
	})
}

// What generators did is in the events, up to the last one.
func TestEventsCountIDs(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var ev events
		cfg := config(leasetest.NewMemory("orders", 1))
		cfg.OnEvent = ev.add
		a := start(t, cfg)
		g := ids(t, a)
		issue := func(n int) {
			for range n {
				if _, err := g.Next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		issue(10)
		fixture.Wait(lease.DefaultTTL)
		issue(5)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Next(); err == nil {
			t.Fatal("an ID after Close")
		}
		if e := ev.of(lease.EventRenewed)[0]; e.IDs.Issued != 10 {
			t.Errorf("at the first renewal: %+v", e.IDs)
		}
		if e := ev.of(lease.EventReleased)[0]; e.IDs.Issued != 15 {
			t.Errorf("at the release: %+v", e.IDs)
		}
	})
}

// A number is freed by force while its holder, cut off and with a clock that is
// behind, still relies on it; an agent with a clock ahead claims it for its own
// lost one. It does not rely on it before what the holder reserved has passed, by
// its own clock: at no time do both.
func TestForcedNumberIsNotHeldTwice(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := config(s)
		cfg.OnLost, cfg.Clock = lease.Reacquire, leasetest.NewClock(1480*time.Millisecond)
		b := start(t, cfg)
		taken(t, s, b)
		if _, err := s.Memory.Write(t.Context(), protocol.Retire{Key: protocol.Key{Pool: "orders", NodeID: b.NodeID()}, Retired: true}); err != nil {
			t.Fatal(err)
		}
		cfg = config(s)
		cfg.Clock = leasetest.NewClock(-1480 * time.Millisecond)
		a := start(t, cfg)
		l, err := a.Lease()
		if err != nil || l.NodeID == b.NodeID() {
			t.Fatal(l, err)
		}
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			if r, ok := w.(protocol.Renew); ok && r.Session == l.Holder {
				return fixture.Hang(ctx)
			}
			return do()
		})
		if _, err := s.Memory.Write(t.Context(), protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: l.NodeID}, Version: l.Version}); err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			fixture.Wait(10 * time.Millisecond)
			one, err1 := a.Lease()
			two, err2 := b.Lease()
			if err1 == nil && err2 == nil {
				t.Fatalf("both rely on node %d and node %d", one.NodeID, two.NodeID)
			}
		}
		if two, err := b.Lease(); err != nil || two.NodeID != l.NodeID {
			t.Errorf("%+v, %v, want node %d", two, err, l.NodeID)
		}
		s.On(nil)
	})
}
