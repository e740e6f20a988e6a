package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
)

func TestMembersSeeEachOther(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		a := join(t, c, "a", func(c *cluster.Config) { c.Metadata = map[string]string{"zone": "1"} })
		fixture.Wait(time.Second)
		b := join(t, c, "b")
		if names(b.State()) != "a b" || names(a.State()) != "a" {
			t.Errorf("b sees %q at once, a %q before its next heartbeat", names(b.State()), names(a.State()))
		}
		fixture.Wait(timeout)
		if !a.State().Equal(b.State()) || a.State().Len() != 2 || leader(a) != "a" || leader(b) != "a" {
			t.Errorf("a sees %q led by %s, b %q led by %s, want both in each, led by a", names(a.State()), leader(a), names(b.State()), leader(b))
		}
		m, ok := b.State().Member(a.Self().SessionID)
		if !ok || m.Name != "a" || m.Version != 1 || m.Metadata["zone"] != "1" || time.Since(m.Heartbeat) > timeout {
			t.Errorf("got %+v, want a with version 1, zone 1 and a recent heartbeat", m)
		}
		m.Metadata["zone"] = "changed"
		if again, _ := b.State().Member(m.SessionID); again.Metadata["zone"] != "1" {
			t.Error("a reader changed the state")
		}
	})
}

// A member that stops heartbeating is dropped after the time-out, and no earlier.
func TestTimeout(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		a, b := join(t, c, "a"), join(t, c, "b")
		fixture.Wait(timeout)
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(timeout / 2)
		if names(a.State()) != "a b" {
			t.Errorf("after half of the time-out: %q", names(a.State()))
		}
		fixture.Wait(settled - timeout/2)
		if names(a.State()) != "a" {
			t.Errorf("after the time-out: got %q, want a", names(a.State()))
		}
		if !errors.Is(b.Err(), cluster.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", b.Err())
		}
		<-b.Done()
	})
}

// After a silence that was longer than the time-out, a node has a new session. After a
// shorter silence, it keeps its session.
func TestRotation(t *testing.T) {
	for _, c := range []struct {
		silence time.Duration
		rotated bool
	}{{timeout / 5, false}, {3 * timeout, true}} { // two heartbeats, or a heartbeat and a retry, are up to 5.5 s apart
		t.Run(c.silence.String(), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				shared := clustertest.NewMemory()
				link := &network{Coordinator: shared}
				var told recorder
				a := join(t, shared, "a", func(c *cluster.Config) { c.Listeners = []cluster.Listener{told.listen} })
				b := join(t, link, "b")
				fixture.Wait(timeout)
				before := b.Self()
				link.set(true, nil)
				fixture.Wait(c.silence)
				link.set(false, nil)
				fixture.Wait(settled)
				after := b.Self()
				if rotated := after.SessionID != before.SessionID; rotated != c.rotated || after.SessionID < before.SessionID || after.Name != "b" {
					t.Errorf("was %+v, is %+v", before, after)
				}
				if c.rotated != (after.Version == before.Version+1) {
					t.Errorf("version %d, was %d", after.Version, before.Version)
				}
				if _, old := a.State().Member(before.SessionID); old == c.rotated || !a.State().Equal(b.State()) {
					t.Errorf("a sees %q, b %q", names(a.State()), names(b.State()))
				}
				want := []string{"a", "a b"}
				if c.rotated {
					want = []string{"a", "a b", "a", "a b"}
				}
				sameStates(t, told.events(), want)
			})
		})
	}
}

// sameStates checks the states in a listener's events, and that the Previous of each
// event is the State of the event before.
func sameStates(t *testing.T, events []cluster.Event, want []string) {
	t.Helper()
	var got []string
	var previous cluster.State
	leader := ""
	for _, e := range events {
		same := e.State.Equal(e.Previous)
		if !e.Previous.Equal(previous) || same && e.Leader.SessionID == leader {
			t.Errorf("got %q after %q, which was %q", names(e.State), names(previous), names(e.Previous))
		}
		if previous, leader = e.State, e.Leader.SessionID; !same {
			got = append(got, names(e.State))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A listener receives no event if nothing has changed. It receives one when its node
// begins to lead.
func TestNoNewsIsNotTold(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		var told recorder
		a := join(t, c, "a", func(c *cluster.Config) { c.Listeners = []cluster.Listener{told.listen} })
		fixture.Wait(time.Hour)
		sameStates(t, told.events(), []string{"a"})
		if all := told.events(); len(all) != 2 || all[0].Leader.Name != "" || all[1].Leader.Name != "a" {
			t.Errorf("got %d events of leaders, want no leader and then a: %+v", len(all), all)
		}
		if e := told.events()[0]; e.Cluster != "orders" || e.Name != "a" || e.SessionID != a.Self().SessionID {
			t.Errorf("got %+v, want a of the cluster orders with its session", e)
		}
	})
}

// A slow listener delays neither the heartbeats nor the other listeners. When it is ready
// again, it receives only the newest state.
func TestSlowListener(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		var slow, quick recorder
		release := make(chan struct{})
		a := join(t, c, "a", func(c *cluster.Config) {
			c.Listeners = []cluster.Listener{func(ctx context.Context, e cluster.Event) error {
				<-release
				return slow.listen(ctx, e)
			}, quick.listen}
		})
		fixture.Wait(0) // both listeners are called with the first state
		b := join(t, c, "b")
		fixture.Wait(timeout)
		join(t, c, "c")
		fixture.Wait(timeout)
		_ = b.Close()
		fixture.Wait(10 * timeout)
		d := join(t, c, "d")
		if names(d.State()) != "a c d" {
			t.Errorf("while a's listener is slow, d sees %q, want a c d", names(d.State()))
		}
		fixture.Wait(timeout)
		sameStates(t, quick.events(), []string{"a", "a b", "a b c", "a c", "a c d"})
		close(release)
		fixture.Wait(0)
		sameStates(t, slow.events(), []string{"a", "a c d"})
		if a.Err() != nil {
			t.Error(a.Err())
		}
	})
}

// If a listener fails, its node stops taking part: the node reports that it is down and
// why, and the others drop it.
func TestFatalListener(t *testing.T) {
	cause := errors.New("no disk")
	for name, fail := range map[string]cluster.Listener{
		"error": func(_ context.Context, e cluster.Event) error {
			if e.State.Len() > 1 {
				return cause
			}
			return nil
		},
		"panic": func(_ context.Context, e cluster.Event) error {
			if e.State.Len() > 1 {
				panic("no disk")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				c := clustertest.NewMemory()
				var other recorder
				a := join(t, c, "a", func(c *cluster.Config) { c.Listeners = []cluster.Listener{fail, other.listen} })
				health(t, a, 200, "UP", "")
				b := join(t, c, "b")
				<-a.Done()
				if err := a.Err(); !errors.Is(err, cluster.ErrListener) || !strings.Contains(err.Error(), "no disk") {
					t.Errorf("got %v, want ErrListener with its reason", err)
				}
				health(t, a, 503, "DOWN", "no disk")
				health(t, b, 200, "UP", "")
				fixture.Wait(settled)
				if names(b.State()) != "b" {
					t.Errorf("b sees %q, want b", names(b.State()))
				}
				told := len(other.events())
				join(t, c, "c")
				fixture.Wait(settled)
				if len(other.events()) != told {
					t.Error("a listener of a node that is down was called again")
				}
				if err := a.Close(); err != nil || !errors.Is(a.Err(), cluster.ErrListener) {
					t.Errorf("Close returned %v, then Err %v, want nil and ErrListener", err, a.Err())
				}
			})
		})
	}
}

func health(t *testing.T, n *cluster.Node, code int, texts ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	n.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	session := n.Self().SessionID
	for _, text := range append(texts, `"…`+session[len(session)-8:]+`"`) {
		if w.Code != code || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%d %s, want %d with %q", w.Code, w.Body, code, text)
		}
	}
	if strings.Contains(w.Body.String(), session) {
		t.Errorf("a check shows the session: %s", w.Body)
	}
}

// An outage of the backend does not end a node.
func TestOutageLeavesHealthUp(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		link := &network{Coordinator: clustertest.NewMemory()}
		a := join(t, link, "a")
		link.set(true, nil)
		fixture.Wait(time.Hour)
		health(t, a, 200, "UP")
		link.set(false, nil)
		fixture.Wait(timeout)
		if a.State().Len() != 1 {
			t.Errorf("a sees %q, want one member", names(a.State()))
		}
	})
}

// A listener may close its own node.
func TestCloseFromAListener(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		nodes := make(chan *cluster.Node, 1)
		n := join(t, clustertest.NewMemory(), "a", func(c *cluster.Config) {
			c.Listeners = []cluster.Listener{func(context.Context, cluster.Event) error { return (<-nodes).Close() }}
		})
		nodes <- n
		<-n.Done()
		if !errors.Is(n.Err(), cluster.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", n.Err())
		}
	})
}

// The two sides of a partition see different states, each with its own leader. When the
// partition is over, all see the same state.
func TestPartition(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		shared := clustertest.NewMemory()
		left := func(m cluster.Member) bool { return m.Name < "c" }
		right := func(m cluster.Member) bool { return m.Name >= "c" }
		links, nodes := map[string]*network{}, map[string]*cluster.Node{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			links[name] = &network{Coordinator: shared}
			nodes[name] = join(t, links[name], name)
			fixture.Wait(time.Millisecond)
		}
		check := func(when string, states, leaders map[bool]string) {
			t.Helper()
			for name, n := range nodes {
				isLeft := name < "c"
				if names(n.State()) != states[isLeft] || leader(n) != leaders[isLeft] {
					t.Errorf("%s, %s sees %q led by %s", when, name, names(n.State()), leader(n))
				}
			}
		}
		fixture.Wait(timeout)
		whole := map[bool]string{true: "a b c d e", false: "a b c d e"}
		check("before", whole, map[bool]string{true: "a", false: "a"})
		for name, l := range links {
			l.set(false, map[bool]func(cluster.Member) bool{true: left, false: right}[name < "c"])
		}
		fixture.Wait(timeout)
		check("in the partition", map[bool]string{true: "a b", false: "c d e"}, map[bool]string{true: "a", false: "c"})
		for _, l := range links {
			l.set(false, nil)
		}
		fixture.Wait(timeout)
		check("after", whole, map[bool]string{true: "a", false: "a"})
	})
}

// A thousand members come and go. In the end, all members see the same state.
func TestChurn(t *testing.T) {
	members := 1000
	if testing.Short() {
		members = 100
	}
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		var told recorder
		var nodes []*cluster.Node
		start := func(name string) *cluster.Node {
			return join(t, c, name, func(c *cluster.Config) { c.Every = timeout / 2 })
		}
		watcher := join(t, c, "watcher", func(c *cluster.Config) { c.Listeners = []cluster.Listener{told.listen} })
		for i := range members {
			nodes = append(nodes, start(fmt.Sprint("node ", i)))
		}
		for i := 0; i < members; i += 3 { // a third restarts, over two time-outs
			_ = nodes[i].Close()
			time.Sleep(6 * timeout / time.Duration(members)) // virtual
			nodes[i] = start(fmt.Sprint("node ", i))
		}
		fixture.Wait(timeout + timeout)
		want := watcher.State()
		if want.Len() != members+1 {
			t.Errorf("the watcher sees %d members", want.Len())
		}
		for _, n := range nodes {
			if !n.State().Equal(want) || leader(n) != "watcher" {
				t.Fatalf("%s sees %d members led by %s", n.Self().Name, n.State().Len(), leader(n))
			}
		}
		events := told.events()
		if last := events[len(events)-1]; !last.State.Equal(want) {
			t.Errorf("the last event has %d members", last.State.Len())
		}
	})
}

// Each loop over Changes has its own previous state, and skips the states that came and
// went while the loop was busy.
func TestChanges(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		c := clustertest.NewMemory()
		a := join(t, c, "a")
		var told recorder
		for e := range a.Changes(t.Context()) {
			_ = told.listen(t.Context(), e)
			switch len(told.events()) {
			case 1:
				join(t, c, "b")
				fixture.Wait(timeout)
				join(t, c, "c")
				fixture.Wait(timeout)
				continue
			case 2:
			}
			break
		}
		sameStates(t, told.events(), []string{"a", "a b c"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range a.Changes(ctx) {
			continue // ends with ctx
		}
		go func() { time.Sleep(time.Minute); _ = a.Close() }() // virtual
		for range a.Changes(t.Context()) {
			continue // ends with the node
		}
		for range a.Changes(t.Context()) {
			t.Error("a closed node reports changes")
		}
	})
}

// A leader whose heartbeats fail reports by an event that it no longer leads, as soon as
// it stops believing that it does.
func TestEventWhenTheLeaderStepsDown(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		link := &network{Coordinator: clustertest.NewMemory()}
		var told recorder
		a := join(t, link, "a", func(c *cluster.Config) { c.Listeners = []cluster.Listener{told.listen} })
		last := func() string {
			all := told.events()
			return all[len(all)-1].Leader.Name
		}
		fixture.Wait(2 * settled)
		if leader(a) != "a" || last() != "a" {
			t.Fatalf("got leader %q, and %q in the last event; want a in both", leader(a), last())
		}
		link.set(true, nil)
		for range 10 * 30 {
			if leader(a) != last() {
				t.Fatalf("got leader %q, and %q in the last event; want the same", leader(a), last())
			}
			fixture.Wait(100 * time.Millisecond)
		}
		if leader(a) != "" {
			t.Errorf("got leader %q, want none", leader(a))
		}
	})
}

// A follower whose heartbeats fail for longer than the time-out has a new session, which
// knows no leader. It reports this by an event.
func TestEventWhenTheLeaderIsUnknown(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		m := clustertest.NewMemory()
		join(t, m, "a")
		fixture.Wait(time.Second)
		link := &network{Coordinator: m}
		var told recorder
		b := join(t, link, "b", func(c *cluster.Config) { c.Listeners = []cluster.Listener{told.listen} })
		fixture.Wait(2 * settled)
		if leader(b) != "a" {
			t.Fatalf("got leader %q, want a", leader(b))
		}
		link.set(true, nil)
		fixture.Wait(2 * timeout)
		all := told.events()
		if got := all[len(all)-1].Leader.Name; leader(b) != "" || got != "" {
			t.Errorf("got leader %q, and %q in the last event; want none in both", leader(b), got)
		}
	})
}

// Start refuses a configuration that cannot work, with an error that names the field.
func TestConfigChecks(t *testing.T) {
	good := func() cluster.Config {
		return cluster.Config{Cluster: "c", Name: "a", Coordinator: clustertest.NewMemory(), Logger: silent}
	}
	for name, change := range map[string]func(*cluster.Config){
		"Cluster":                    func(c *cluster.Config) { c.Cluster = "" },
		`"c#svc"`:                    func(c *cluster.Config) { c.Cluster = "c#svc" }, // discovery's partitions have such names
		"Name":                       func(c *cluster.Config) { c.Name = strings.Repeat("x", 200) },
		"Coordinator":                func(c *cluster.Config) { c.Coordinator = nil },
		"Every":                      func(c *cluster.Config) { c.Every = c.Timeout + time.Minute },
		"Every -1ns":                 func(c *cluster.Config) { c.Every = -1 },
		"Timeout 2ns is below 100ms": func(c *cluster.Config) { c.Timeout = 2 },
		"Timeout -1s is below 100ms": func(c *cluster.Config) { c.Timeout = -time.Second },
	} {
		cfg := good()
		change(&cfg)
		if _, err := cluster.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}

// If the backend does not answer, Start returns when its context ends, with an error that
// contains the cause.
func TestStartWithoutAnswer(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		link := &network{Coordinator: clustertest.NewMemory()}
		link.set(true, nil)
		_, err := cluster.Start(ctx, cluster.Config{Cluster: "c", Name: "a", Coordinator: link, Logger: silent})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), errAway.Error()) {
			t.Errorf("got %v, want DeadlineExceeded with the last failure", err)
		}
	})
}
