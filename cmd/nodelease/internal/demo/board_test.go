package demo

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func testBoard(t *testing.T) (b *Board, kinds func() []string) {
	t.Helper()
	var told []string
	b = newBoard(Defaults(), func(n News) { told = append(told, n.Kind) })
	b.begin()
	b.started("task-1", false)
	b.started("task-2", false)
	return b, func() []string { return told }
}

func TestBoardFindsDuplicates(t *testing.T) {
	b, kinds := testBoard(t)
	b.ids("task-1", []snowflake.ID{1, 2, 3})
	b.ids("task-2", []snowflake.ID{4, 5})
	if err := b.verdict(); err != nil {
		t.Fatal(err)
	}
	b.ids("task-2", []snowflake.ID{6, 2<<12 | 1})
	b.ids("task-1", []snowflake.ID{6, 2<<12 | 1, 2<<12 | 2})
	if sum := b.summary(); sum.Duplicates != 2 || sum.IDs != 10 {
		t.Errorf("got %+v, want Duplicates 2 and IDs 10", sum)
	}
	if err := b.verdict(); !errors.Is(err, ErrDuplicates) || errors.Is(err, ErrDisorder) {
		t.Errorf("got %v, want ErrDuplicates", err)
	}
	if !slices.Contains(kinds(), "DUPLICATE") {
		t.Error("no event was told")
	}
}

// The board reports IDs of a task that do not strictly increase, even across a change of
// its node ID.
func TestBoardFindsDisorder(t *testing.T) {
	for _, second := range [][]snowflake.ID{{12, 11}, {9}, {10}} {
		b, _ := testBoard(t)
		b.ids("task-1", []snowflake.ID{9 - 1, 10})
		b.ids("task-2", []snowflake.ID{1}) // IDs of another task do not count
		b.ids("task-1", second)
		if err := b.verdict(); !errors.Is(err, ErrDisorder) {
			t.Errorf("%v after 10: got %v, want ErrDisorder", second, err)
		}
	}
}

// The board follows the whole life of a task, as reported by its agent.
func TestBoardFollowsEvents(t *testing.T) {
	b, kinds := testBoard(t)
	say := func(kind lease.EventKind, node int, text string) {
		b.event("task-1", taskEvent{Kind: kind, Node: node, Version: 1, Error: text})
	}
	say(lease.EventWaiting, -1, "lease: pool exhausted: all 3 node IDs are taken; resize the pool")
	say(lease.EventWaiting, -1, "again") // reported only once
	say(lease.EventClaimed, 7, "")
	if !b.holds("task-1") || b.holds("task-2") || b.nodeOf("task-1") != "node 7" {
		t.Error("task-1 holds node 7")
	}
	say(lease.EventRenewed, 7, "")
	say(lease.EventSuspended, 7, "")
	if b.holds("task-1") {
		t.Error("suspended is not held")
	}
	say(lease.EventResumed, 7, "")
	say(lease.EventLost, 7, `lease: lost: node 7 of pool "demo" is held by task-2 since version 2`)
	say(lease.EventClaimed, 8, "")
	say(lease.EventReleased, 8, "")
	if had := b.gone("task-1"); !had {
		t.Error("task-1 had a node ID")
	}
	if had := b.gone("task-2"); had {
		t.Error("task-2 had none")
	}
	sum := b.summary()
	if sum.Claims != 2 || sum.Renewals != 1 || sum.Suspended != 1 || sum.Lost != 1 {
		t.Errorf("got %+v, want Claims 2, Renewals 1, Suspended 1 and Lost 1", sum)
	}
	want := []string{"waiting", "claimed", "suspended", "resumed", "lost", "claimed", "released"}
	if !slices.Equal(kinds(), want) {
		t.Errorf("got the events %v, want %v", kinds(), want)
	}
	texts := b.snapshot().News
	if texts[0].Text != "task-1: pool exhausted: all 3 node IDs are taken" || texts[4].Text != "task-1: node 7 is held by task-2 since version 2" {
		t.Errorf("got %+v, want the exhaustion and the loss as texts", texts)
	}
}

// A snapshot joins a node ID's state in the table with the known state of its holder's
// process.
func TestSnapshotStates(t *testing.T) {
	b, _ := testBoard(t)
	b.event("task-1", taskEvent{Kind: lease.EventClaimed, Node: 0, Version: 4})
	held := lease.Lease{NodeID: 0, Holder: "session", Task: "task-1", Version: 4, ExpiresAt: time.Now().Add(time.Hour)}
	old := held
	old.Task, old.ExpiresAt = "a stranger", time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		lease  lease.Lease
		status string
		want   string
	}{
		"held":      {held, taskHolding, "held"},
		"suspended": {held, taskSuspended, "suspended"},
		"frozen":    {held, taskFrozen, "frozen"},
		"dead":      {held, taskDead, "dead"},
		"expired":   {old, taskHolding, "expired"},
		"free":      {lease.Lease{}, taskHolding, "free"},
		"cooling":   {lease.Lease{ReservedUntil: time.Now().Add(time.Hour)}, taskHolding, "cooling"},
	} {
		b.acted("task-1", test.status, nil, "test", "")
		b.table([]lease.Lease{test.lease})
		if got := b.snapshot().NodeIDs[0].State; got != test.want {
			t.Errorf("%s: shown as %s", name, got)
		}
	}
	if got := b.snapshot().Homeless; !slices.Equal(got, []string{"task-2"}) {
		t.Errorf("tasks without a node ID: got %v, want task-2", got)
	}
}

// Among the live members of the cluster, the task with the oldest session leads. A change
// of the leader is reported once.
func TestBoardTellsWhoLeads(t *testing.T) {
	b, kinds := testBoard(t)
	held := func(task, session string, left time.Duration) lease.Lease {
		return lease.Lease{Holder: "h", Task: task, Version: 1, ExpiresAt: time.Now().Add(left), Metadata: map[string]string{"node": task, "session_id": session}}
	}
	one, two := held("task-1", "a", time.Hour), held("task-2", "b", time.Hour)
	gone := held("task-1", "a", -time.Hour)
	stranger := lease.Lease{Holder: "h", Task: "x", ExpiresAt: time.Now().Add(time.Hour)}
	for i, c := range []struct {
		leases []lease.Lease
		leader string
	}{
		{nil, ""},
		{[]lease.Lease{stranger, two, one}, "task-1"},
		{[]lease.Lease{one, two}, "task-1"},
		{[]lease.Lease{gone, two}, "task-2"},
		{[]lease.Lease{gone}, "task-2"}, // no successor is known
	} {
		b.table(c.leases)
		if got := b.snapshot().Leader; got != c.leader {
			t.Errorf("step %d: %q leads, want %q", i, got, c.leader)
		}
	}
	if want := []string{"leads", "leads"}; !slices.Equal(kinds(), want) {
		t.Errorf("got the events %v, want %v", kinds(), want)
	}
}

// The last frame remains on the terminal. It shows a released node ID as free, not dead,
// although the table was read before the release and the process has ended since.
func TestLastFrame(t *testing.T) {
	b, _ := testBoard(t)
	b.event("task-1", taskEvent{Kind: lease.EventClaimed, Node: 3, Version: 1})
	b.event("task-2", taskEvent{Kind: lease.EventClaimed, Node: 4, Version: 1})
	later := time.Now().Add(time.Minute)
	b.table([]lease.Lease{
		{NodeID: 3, Holder: "a", Task: "task-1", Version: 1, ExpiresAt: later},
		{NodeID: 4, Holder: "b", Task: "task-2", Version: 1, ExpiresAt: later},
	})
	b.event("task-1", taskEvent{Kind: lease.EventReleased, Node: 3, Version: 1})
	b.gone("task-1")
	b.gone("task-2") // killed
	s := b.snapshot()
	if got, want := []string{s.NodeIDs[0].State, s.NodeIDs[1].State}, []string{"free", "dead"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var out bytes.Buffer
	if err := (Live{Out: &out}).Last(b); err != nil || !strings.Contains(out.String(), "nodelease demo") || !strings.HasSuffix(out.String(), "\n") || strings.Contains(out.String(), "\x1b[?1049") {
		t.Errorf("left behind %q, %v", out.String(), err)
	}
}

// In an outage the board reports each task's age and how long it can make IDs, and
// afterwards which tasks did.
func TestBoardInAnOutage(t *testing.T) {
	var told []string
	b := newBoard(OutageDefaults(), func(n News) { told = append(told, n.Kind+": "+n.Text) })
	b.begin()
	for i, name := range []string{"task-1", "task-2", "task-3", "task-4"} {
		b.started(name, name == "task-3")
		if name != "task-4" {
			b.event(name, taskEvent{Kind: lease.EventClaimed, Node: i, IDsLeft: 2 * time.Second})
		}
	}
	b.tasks["task-2"].born = b.tasks["task-2"].born.Add(-10 * time.Second)
	b.event("task-2", taskEvent{Kind: lease.EventRenewed, Node: 1, IDsLeft: time.Hour})
	told = nil
	b.away("kill -9")
	b.event("task-2", taskEvent{Kind: lease.EventSuspended, Node: 1, IDsLeft: time.Hour})
	b.event("task-1", taskEvent{Kind: lease.EventSuspended, Node: 0})
	if !b.snapshot().Outage || !b.isOut() {
		t.Error("the board does not show the outage")
	}
	b.ids("task-2", []snowflake.ID{1 << 30})
	b.back("again")
	if b.snapshot().Outage || b.sum.WentOn != 1 || b.sum.Stopped != 2 {
		t.Errorf("%d continued and %d stopped, want 1 and 2", b.sum.WentOn, b.sum.Stopped)
	}
	all := strings.Join(told, "\n")
	for _, want := range []string{
		"outage: kill -9\nalone: task-2, 1", "alone: task-1, ", " more; as a member of the cluster it keeps a short lease",
		"task-2: the lease on node 1 was not confirmed in time: IDs for another 1h0m0s", "task-1: the lease on node 0 was not confirmed in time: no IDs",
		"back: again\nwent on: task-2", "stopped: task-1",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("want %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "task-4") {
		t.Errorf("a task without a node ID is shown in:\n%s", all)
	}
}
