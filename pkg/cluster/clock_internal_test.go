package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// alone is a backend whose only member is the sender of the heartbeat.
type alone struct {
	Coordinator
	last time.Time // the time in the last heartbeat
	away bool      // whether heartbeats fail
}

func (a *alone) Heartbeat(_ context.Context, b Beat) (Snapshot, error) {
	a.last = b.At
	if a.away {
		return Snapshot{}, errors.New("away")
	}
	return Snapshot{Members: []Member{b.Self}}, nil
}

func (*alone) Expire(context.Context, string, time.Duration) error { return nil }

// Silence is measured with a clock that includes the time for which the machine was
// suspended (package snowflake tests that clock). time.Since does not include this time.
// With time.Since, a member on a machine that slept would come back with the same
// session, and could lead.
func TestSuspendIsSilence(t *testing.T) {
	n, err := Start(t.Context(), Config{Cluster: "orders", Name: "a", Coordinator: &alone{}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if n.clock != snowflake.SystemClock() {
		t.Errorf("the clock is a %T, want snowflake.SystemClock", n.clock)
	}
}

// If the wall clock of a running member is set back, the time in its heartbeats does not
// go back, so that no heartbeat is taken for a late one. Once the clock has caught up, the
// heartbeats have its time again. If the clock was set back by an hour, they have its time
// at once.
func TestHeartbeatsNeverGoBack(t *testing.T) {
	c := &alone{}
	n, clock := stopped(t, c)
	beat := func() time.Time {
		if err := n.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.last
	}
	first := beat()
	clock.Step(-9 * time.Second)
	if got := beat(); !got.Equal(first) {
		t.Errorf("after a step back: got a heartbeat of %v, want %v", got, first)
	}
	clock.Step(10 * time.Second)
	if got := beat(); got.Before(first.Add(time.Second)) {
		t.Errorf("after the clock has caught up: got a heartbeat of %v, want one of %v or later", got, first.Add(time.Second))
	}
	clock.Step(time.Hour)
	beat()
	clock.Step(-time.Hour)
	if got := beat(); got.After(first.Add(time.Minute)) {
		t.Errorf("after an hour ahead: got a heartbeat of %v, want one of %v or little later", got, first.Add(time.Second))
	}
}

// While the wall clock has not caught up after it was set back, a new session has a later
// time than the last heartbeat of the previous session, which may arrive late.
func TestSessionsBeginLater(t *testing.T) {
	c := &alone{}
	n, clock := stopped(t, c)
	clock.Step(-4 * time.Minute)
	before, session := c.last, n.Self().SessionID
	if err := n.rotate(); err != nil {
		t.Fatal(err)
	}
	if err := n.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.Self().SessionID == session || c.last.UnixMilli() <= before.UnixMilli() {
		t.Errorf("got the session %s at %v, want one other than %s, later than %v", n.Self().SessionID, c.last, session, before)
	}
}

// A heartbeat that did not arrive is not in the record. So it is the last heartbeat that
// arrived from which a clock must go back by more than MaxClockBack for the next heartbeat
// to have its time.
func TestLostHeartbeatDoesNotSetTheTimeBack(t *testing.T) {
	c := &alone{}
	n, clock := stopped(t, c)
	if err := n.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded := c.last
	clock.Step(10 * time.Second)
	c.away = true
	if err := n.turn(t.Context()); err == nil {
		t.Fatal("got a heartbeat, want an error")
	}
	c.away = false
	clock.Step(-MaxClockBack - 5*time.Second)
	if err := n.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.last.Before(recorded) {
		t.Errorf("got a heartbeat of %v, %v before the record, want none before it", c.last, recorded.Sub(c.last))
	}
}

// stopped returns a node whose heartbeats the test itself sends, and the node's clock.
func stopped(t *testing.T, c Coordinator) (*Node, *leasetest.Clock) {
	t.Helper()
	n, err := Start(t.Context(), Config{Cluster: "orders", Name: "a", Coordinator: c})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n.err = nil // a node that has ended begins no session
	clock := leasetest.NewClock(time.Minute)
	n.clock = clock
	return n, clock
}
