package outages_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func TestLost(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		a := fixture.Start(t, fixture.Config(s))
		g := fixture.IDs(t, a)
		fixture.Take(t, s, a)
		<-a.Done()
		if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) || !errors.Is(a.Err(), lease.ErrLost) {
			t.Errorf("got %v, %v, want lease.ErrLost", err, a.Err())
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
		if l := fixture.Item(t, s, 0); l.Holder != "thief" {
			t.Errorf("Close touched another's lease: %+v", l)
		}
		if n := len(fixture.WritesOf[protocol.Release](s)); n != 0 {
			t.Errorf("%d releases of another's lease, a write unit each", n)
		}
	})
}

func TestReacquire(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(2)
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
		first := a.NodeID()
		before, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		fixture.Take(t, s, a)
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
		if l := fixture.Item(t, s, l.NodeID); l.Holder != "" {
			t.Errorf("not given back: %+v", l)
		}
	})
}

// A holder has lost its node ID, and the pool has outgrown the holder's layout (through a
// write that no verb makes). The agent ends, reports the reason, and holds no node ID
// afterwards.
func TestReacquireInAPoolThatOutgrewTheLayout(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1024)
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		a := fixture.Start(t, cfg)
		fixture.IDs(t, a) // 10 node bits
		p, err := s.PoolItem(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		if res, err := s.WritePool(t.Context(), protocol.ResizePool{Pool: "orders", Revision: p.Revision, To: 1025}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		fixture.Take(t, s, a)
		fixture.Wait(10 * time.Second)
		select {
		case <-a.Done():
		default:
			t.Fatal("it goes on without a node ID that it could use")
		}
		stats, err := leasepool.Open(s, "orders").Stats(t.Context())
		if err != nil || stats.Held != 1 { // only the thief's node ID
			t.Errorf("%+v, %v", stats, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// After a loss, an agent keeps trying, as it does with renewals, if a token has expired,
// a permission is missing, a table is being restored or the clock is wrong. It gives up
// if the pool was written by a newer release, since this program can no longer use the
// pool.
func TestReacquireRidesErrorsOut(t *testing.T) {
	for _, c := range []struct {
		err  error
		ends bool
	}{{lease.ErrAccess, false}, {lease.ErrTable, false}, {lease.ErrPoolNotSeeded, false}, {lease.ErrClockSkew, false}, {lease.ErrItemFormat, true}} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(2)
			cfg := fixture.Config(s)
			cfg.OnLost = lease.Reacquire
			a := fixture.Start(t, cfg)
			s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
				if _, ok := w.(protocol.Claim); ok {
					return protocol.Result{}, fmt.Errorf("%w: for a minute", c.err)
				}
				return do()
			})
			fixture.Write(t, s, protocol.ForceRelease{Key: protocol.Key{Pool: "orders", NodeID: a.NodeID()}, Version: 1}, true)
			fixture.Wait(time.Minute)
			s.On(nil)
			fixture.Wait(5 * time.Second)
			if _, err := a.Lease(); (err != nil) != c.ends || errors.Is(err, c.err) != c.ends {
				t.Errorf("after a minute of %v: got %v, want held: %v", c.err, err, !c.ends)
			}
		})
	}
}

// A suspended holder retries at random intervals, from one second to a twentieth of the
// time that is left of its reservation. The upper limit is never less than one second or
// more than five seconds.
func TestSuspendedHolderAsksAtItsLeisure(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(1)
		cfg := fixture.Config(s)
		cfg.Reserve = 10 * time.Minute
		a := fixture.Start(t, cfg)
		began := time.Now()
		var last time.Time
		s.On(func(context.Context, protocol.Write, func() (protocol.Result, error)) (protocol.Result, error) {
			at := time.Now()
			if deadline := began.Add(13 * time.Second); at.After(deadline) {
				gap, least := at.Sub(last), time.Second
				if last.Before(deadline) { // the holder was not suspended yet
					least = 0
				}
				left := cfg.Reserve - last.Sub(began)
				if most := max(min(5*time.Second, left/20), time.Second); gap < least || gap > most {
					t.Errorf("asked after %v with %v left, want %v to %v", gap, left, least, most)
				}
			}
			last = at
			return protocol.Result{}, errors.New("away")
		})
		fixture.Wait(20 * time.Minute)
		asked := len(fixture.WritesOf[protocol.Renew](s))
		if asked < 600 || asked > 1200 {
			t.Errorf("asked %d times in 20 minutes", asked)
		}
		s.On(nil)
		fixture.Wait(2 * time.Second)
		if _, err := a.Lease(); err != nil {
			t.Error(err)
		}
	})
}

// All holders of a fleet start at the same moment and are suspended at the same moment.
// Less than 20 s of their reservations are left, so all pauses are one second. Even so,
// the fleet's requests are spread over that second.
func TestSuspendedFleetIsSpread(t *testing.T) {
	const fleet = 100
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(fleet)
		for range fleet {
			fixture.Start(t, fixture.Config(s))
		}
		deadline := time.Now().Add(13 * time.Second)
		var mu sync.Mutex
		slots := map[time.Duration]int{}
		s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
			if since := time.Since(deadline); since >= 0 {
				mu.Lock()
				slots[since/(100*time.Millisecond)]++
				mu.Unlock()
			}
			<-ctx.Done() // every holder's last attempt before the deadline ends at the deadline
			return protocol.Result{}, context.Cause(ctx)
		})
		fixture.Wait(time.Minute)
		s.On(nil)
		mu.Lock()
		defer mu.Unlock()
		for slot, n := range slots {
			if n > fleet/3 {
				t.Errorf("%d of %d asked within 100ms, %v after the deadline, want at most a third", n, fleet, slot*100*time.Millisecond)
			}
		}
	})
}

// In an outage that is longer than the lease, the holder is suspended at its deadline and
// makes no IDs. It resumes with the same version when the store is back.
func TestSuspendAndResume(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
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
		if got, want := ev.Kinds(lease.EventSuspended, lease.EventResumed), []lease.EventKind{lease.EventSuspended, lease.EventResumed}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestOnExpiryStop(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		cfg := fixture.Config(s)
		cfg.OnExpiry = lease.Stop
		a := fixture.Start(t, cfg)
		s.SetOutage(errors.New("away"))
		fixture.Wait(13*time.Second - time.Millisecond)
		if a.Err() != nil {
			t.Fatal(a.Err())
		}
		fixture.Wait(time.Millisecond)
		<-a.Done()
		if !errors.Is(a.Err(), lease.ErrLost) {
			t.Errorf("got %v, want lease.ErrLost", a.Err())
		}
		s.SetOutage(nil)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := fixture.Item(t, s, a.NodeID()); l.Holder != "" {
			t.Errorf("not given back: %+v", l)
		}
	})
}

// With OnExpiry Stop, a lease whose deadline passes while the machine is suspended is lost at
// the next renewal. No timer runs during the suspension; afterwards, only the clock shows it.
// Close releases the node ID.
func TestOnExpiryStopAfterASuspend(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s, clock := fixture.NewNetwork(1), fixture.NewDozy()
		cfg := fixture.Config(s)
		cfg.Clock, cfg.OnExpiry = clock, lease.Stop
		a := fixture.Start(t, cfg)
		<-a.Renewed() // the deadline, and with it the timer, is longer away than the next renewal
		clock.MonoLag.Add(-int64(time.Hour))
		clock.WallLag.Add(-int64(time.Hour))
		fixture.Wait(6 * time.Second) // one renewal
		if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) || !errors.Is(a.Err(), lease.ErrLost) {
			t.Errorf("an hour after the deadline: got %v, Err %v, want lost", err, a.Err())
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if l := fixture.Item(t, s, 0); l.Holder != "" {
			t.Errorf("got %+v, want it released", l)
		}
	})
}

// The watchdog runs outside the loop, so the agent notices that the deadline has passed
// even if a request hangs forever.
func TestHungRequestSuspends(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(4)
		var ev fixture.Events
		cfg := fixture.Config(s)
		cfg.OnEvent = ev.Add
		release := make(chan struct{})
		defer close(release)
		a := fixture.Start(t, cfg)
		s.On(func(context.Context, protocol.Write, func() (protocol.Result, error)) (protocol.Result, error) {
			<-release // the request does not end even when its context ends
			return protocol.Result{}, errors.New("gone")
		})
		fixture.Wait(13 * time.Second)
		if len(ev.Of(lease.EventSuspended)) != 1 {
			t.Error("not announced at the deadline")
		}
		if _, err := a.Lease(); !errors.Is(err, lease.ErrSuspended) {
			t.Errorf("got %v, want lease.ErrSuspended", err)
		}
		s.On(nil)
	})
}

// replaced is a store whose pool is replaced by a narrow one.
type replaced struct {
	fixture.ToldTime
	on atomic.Bool
}

func (s *replaced) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.ToldTime.PoolItem(ctx, pool)
	if s.on.Load() {
		p.Eras, p.ExistBelow = snowflake.Eras{{From: time.UnixMilli(0), NodeBits: 9}}, p.Size
	}
	return p, err
}

// If a lease contradicts the pool's history of widths, it is lost like any other.
func TestLostToAnotherHistory(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		clock, s := leasetest.NewClock(0), &replaced{ToldTime: fixture.ToldTime{Network: fixture.NewNetwork(2)}}
		cfg := fixture.Config(s)
		cfg.Clock = clock
		err := lease.Run(t.Context(), cfg, func(ctx context.Context, a *lease.Agent) error {
			s.on.Store(true)
			clock.Step(time.Hour) // makes the agent read the pool again
			<-ctx.Done()
			if _, err := a.Lease(); !errors.Is(err, lease.ErrLost) || !errors.Is(a.Err(), lease.ErrLost) {
				t.Errorf("got %v, Err %v, want lost", err, a.Err())
			}
			return ctx.Err()
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("Run: got %v, want lost", err)
		}
	})
}

// After a loss or Close, IDsLeft is not positive, however much is reserved.
func TestIDsLeftAfterTheEnd(t *testing.T) {
	for _, closes := range []bool{false, true} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			var ev fixture.Events
			cfg := fixture.Config(s)
			cfg.Reserve, cfg.OnEvent = 4*time.Hour, ev.Add
			a := fixture.Start(t, cfg)
			ended := lease.EventLost
			if closes {
				ended = lease.EventReleased
				_ = a.Close()
			} else {
				fixture.Write(t, s, protocol.ForceRelease{Key: protocol.Key{Pool: "orders"}, Version: 1}, true)
				<-a.Done()
			}
			fixture.Wait(0)
			if got := a.IDsLeft(); got > 0 {
				t.Errorf("closed %v: got %v, want at most 0", closes, got)
			}
			if e := ev.Of(ended); len(e) != 1 || e[0].IDsLeft > 0 {
				t.Errorf("closed %v: got the events %v, want one with at most 0 of IDsLeft", closes, e)
			}
		})
	}
}

// broken makes every write of a node ID return the error for an item that was broken by
// hand.
func broken(s *fixture.Network, node int) {
	s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
		if w.Item().NodeID == node {
			return protocol.Result{}, &protocol.CorruptError{Pool: "orders", NodeID: node, Err: errors.New("broken by hand")}
		}
		return do()
	})
}

// The item of a held node ID is broken by hand. An agent that may claim another node ID
// does so once its lease is over.
func TestOwnItemIsBroken(t *testing.T) {
	t.Run("Reacquire", func(t *testing.T) {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(8)
			cfg := fixture.Config(s)
			cfg.OnLost = lease.Reacquire
			a := fixture.Start(t, cfg)
			first := a.NodeID()
			broken(s, first)
			fixture.Wait(time.Minute)
			if l, err := a.Lease(); err != nil || l.NodeID == first {
				t.Errorf("got node %d, %v, want another one than %d", l.NodeID, err, first)
			}
		})
	})
	for name, sleep := range map[string]func(*fixture.Dozy){
		"on demand": func(*fixture.Dozy) { fixture.Wait(time.Hour) },
		"on demand, after a sleep that only the wall clock shows": func(d *fixture.Dozy) { d.Freeze(time.Hour, true) },
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(8)
				o, d := fixture.OnDemand(t, s)
				fixture.Refresh(t, o)
				first := o.NodeID()
				broken(s, first)
				sleep(d)
				fixture.Refresh(t, o)
				if o.NodeID() == first {
					t.Errorf("got node %d again, want another one", first)
				}
			})
		})
	}
}

// The item of a held node ID has a mark of a widening that its pool never began, which was
// written by hand. An agent that may claim another node ID does so once its lease is over.
func TestOwnItemHasAForgedMark(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		mark := func(node int) {
			fixture.Write(t, s, protocol.Mark{Key: protocol.Key{Pool: "orders", NodeID: node}, Try: 7, From: time.Now().AddDate(1, 0, 0)}, true)
		}
		cfg := fixture.Config(s)
		cfg.OnLost = lease.Reacquire
		a := fixture.Start(t, cfg)
		o, _ := fixture.OnDemand(t, s)
		fixture.Refresh(t, o)
		first, second := a.NodeID(), o.NodeID()
		mark(first)
		mark(second)
		fixture.Wait(time.Hour)
		if l, err := a.Lease(); err != nil || l.NodeID == first {
			t.Errorf("got node %d, %v, want another one than %d", l.NodeID, err, first)
		}
		fixture.Refresh(t, o)
		if o.NodeID() == second {
			t.Errorf("got node %d again on demand, want another one", second)
		}
	})
}

// An on-demand claim was given up, and its item is corrupt. The agent claims another node
// ID, and never claims this one with the same session.
func TestGivenUpClaimOfABrokenItem(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		o, _ := fixture.OnDemand(t, s)
		node := -1
		s.On(func(_ context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			c, claims := w.(protocol.Claim)
			if claims && node < 0 {
				node = c.NodeID
				res, err := do()
				fixture.Wait(301 * time.Second) // the process is frozen
				return res, err
			}
			if w.Item().NodeID == node {
				return protocol.Result{}, &protocol.CorruptError{Pool: "orders", NodeID: node, Err: errors.New("broken by hand")}
			}
			return do()
		})
		_ = o.Refresh(t.Context())
		fixture.Refresh(t, o)
		if o.NodeID() == node {
			t.Errorf("got node %d, want another one", node)
		}
	})
}

// The answer to an on-demand claim shows a broken item, and the release of the claim has no
// answer. The next use settles it before it claims another node ID.
func TestClaimOfABrokenItemIsSettled(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := fixture.NewNetwork(8)
		o, _ := fixture.OnDemand(t, s)
		claims, abandons := 0, 0
		s.On(func(ctx context.Context, w protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
			switch w.(type) {
			case protocol.Claim:
				if claims++; claims == 1 {
					_, _ = do()
					return protocol.Result{}, &protocol.CorruptError{Pool: "orders", NodeID: w.Item().NodeID, Written: true, Err: errors.New("a fraction")}
				}
			case protocol.Abandon:
				if abandons++; abandons == 1 {
					return fixture.Hang(ctx)
				}
			}
			return do()
		})
		_ = o.Refresh(t.Context())
		fixture.Refresh(t, o)
		if n := fixture.Held(t, s); n != 1 {
			t.Errorf("got %d node IDs held after %d claims and %d releases, want 1", n, claims, abandons)
		}
	})
}
