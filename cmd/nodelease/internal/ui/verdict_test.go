package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// pooled returns a server whose pool was read with these counts.
func pooled(c map[lease.State]int) *Server {
	s := New(Options{Pool: "orders", Command: func(words string) string { return "nodelease " + words + " --table leases" }, Every: time.Second})
	s.whole = true
	for state, n := range c {
		s.model.total.add(state, n)
		s.model.pool.Size += n
	}
	return s
}

func TestVerdict(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		counts      map[lease.State]int
		kind, level string
		headline    string
		command     string
	}{
		{map[lease.State]int{lease.Free: 64}, "ok", levelOK, "64 of 64 node IDs are free", ""},
		{map[lease.State]int{lease.Held: 51, lease.Free: 13}, "ok", levelOK, "13 of 64 node IDs are free", ""},
		{map[lease.State]int{lease.Held: 52, lease.Free: 12}, "nearly full", levelWarn, "Nearly full: 12 of 64 node IDs are free", "nodelease resize --size 128 --table leases"},
		// Cooling node IDs do not count as free.
		{map[lease.State]int{lease.Held: 10, lease.Cooling: 50, lease.Free: 4}, "nearly full", levelWarn, "Nearly full: 4 of 64 node IDs are free", "--size 128"},
		{map[lease.State]int{lease.Held: 1024}, "full", levelBad, "Full: all 1,024 node IDs are taken", "--size 2048"},
		{map[lease.State]int{lease.Held: 60, lease.Cooling: 4}, "full", levelBad, "Full: all 64 node IDs are taken", "--size 128"},
		{map[lease.State]int{lease.Held: protocol.MaxPoolSize}, "full", levelBad, "Full: all 65,536", "doctor"},
		{map[lease.State]int{lease.Held: 41, lease.Expired: 531}, "mostly expired", levelBad, "531 of 572 holders have stopped renewing", "doctor"},
		{map[lease.State]int{lease.Held: 60, lease.Expired: 1, lease.Free: 900}, "expired", levelWarn, "1 holder stopped renewing", ""},
		{map[lease.State]int{lease.Free: 9, corrupt: 2}, "corrupt", levelWarn, "2 items cannot be read", "doctor"},
		{map[lease.State]int{lease.Free: 9, missing: 1}, "missing", levelWarn, "1 node ID not seeded", "seed --size 10 --floor +1m --table leases"},
		{map[lease.State]int{lease.Retired: 4}, "empty", levelBad, "No node ID can be leased", "doctor"},
	} {
		v := pooled(c.counts).judge(now)
		if v.Kind != c.kind || v.Level != c.level || !strings.HasPrefix(v.Headline, c.headline) || !strings.Contains(v.Command, c.command) || c.command == "" && v.Command != "" {
			t.Errorf("%v: got %+v, want %s, %s, %q, %q", c.counts, v, c.kind, c.level, c.headline, c.command)
		}
	}
}

// The command for missing node IDs has the pool's own flags and a floor, and the text has the
// advice to stop every process first.
func TestVerdictOfMissingNodeIDs(t *testing.T) {
	s := pooled(map[lease.State]int{lease.Free: 500, missing: 12})
	s.model.pool = protocol.PoolItem{Pool: "orders", Size: 1000, ExcludeBelow: 488, ExistBelow: 1000, Eras: snowflake.Eras{{NodeBits: 10}}}
	v := s.judge(time.Now())
	if want := "nodelease seed --size 1000 --floor +1m --exclude-below 488 --narrow --table leases"; v.Command != want {
		t.Errorf("got %q, want %q", v.Command, want)
	}
	if want := "stop every process"; !strings.Contains(v.Text, want) {
		t.Errorf("got %q, want %q in it", v.Text, want)
	}
}

// A full pool that its layout keeps from growing is not told to resize, unless its width can grow.
func TestVerdictOfAFullLayout(t *testing.T) {
	s := pooled(map[lease.State]int{lease.Held: 1024})
	l := protocol.LayoutOf(snowflake.Default())
	s.model.pool.Layout = &l
	v := s.judge(time.Now())
	if want := "nodelease doctor --table leases"; v.Command != want {
		t.Errorf("got %q, want %q", v.Command, want)
	}
	if want := "move the fleet to another pool"; !strings.Contains(v.Text, want) {
		t.Errorf("got %q, want %q in it", v.Text, want)
	}
	s.model.pool.ExistBelow, s.model.pool.Eras = 512, snowflake.Eras{{NodeBits: 9}}
	if got, want := s.judge(time.Now()).Command, "nodelease resize --size 1024 --table leases"; got != want {
		t.Errorf("narrow: got %q, want %q", got, want)
	}
}

// A pool with an expired node ID that can be claimed is not full, and one that is reserved
// until its floor gets no advice to resize.
func TestVerdictWithoutFreeNodeIDs(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	held := protocol.Lease{Holder: "s", Version: 1, TTL: time.Minute, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute)}
	gone := protocol.Lease{NodeID: 1, Holder: "t", Version: 1, TTL: time.Minute, ExpiresAt: now.Add(-time.Minute), ReservedUntil: now.Add(-time.Second)}
	grown := gone
	grown.ReservedUntil = now.Add(time.Hour)
	raised := []protocol.Lease{{ReservedUntil: now.Add(time.Hour)}, {NodeID: 1, ReservedUntil: now.Add(time.Hour)}}
	for name, c := range map[string]struct {
		leases              []protocol.Lease
		floor               time.Time
		kind, text, command string
	}{
		"an expired one can be claimed": {[]protocol.Lease{held, gone}, time.Time{}, "nearly full", "A deploy", "resize --size 4"},
		"an expired one is reserved":    {[]protocol.Lease{held, grown}, time.Time{}, "full", "New tasks wait", "resize --size 4"},
		"raised":                        {raised, now.Add(time.Hour), "full", "no room sooner", ""},
		"reserved beyond the floor":     {raised, now.Add(time.Minute), "full", "New tasks wait", "resize --size 4"},
	} {
		s := pooled(nil)
		s.model.pool = protocol.PoolItem{Pool: "orders", Size: 2, OpenGroups: 1, Floor: c.floor}
		s.model.read(0, protocol.Group{Leases: c.leases}, now, newChange())
		if v := s.judge(now); v.Kind != c.kind || !strings.Contains(v.Text, c.text) || !strings.Contains(v.Command, c.command) || c.command == "" && v.Command != "" {
			t.Errorf("%s: got %+v", name, v)
		}
	}
}

func TestVerdictOfATableThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind string
	}{
		{fmt.Errorf("%w: GetItem", protocol.ErrAccess), "denied"},
		{fmt.Errorf("%w: orders", protocol.ErrPoolNotSeeded), "unseeded"},
		{fmt.Errorf("connection refused\x1b[2J"), "unreadable"},
	} {
		s := pooled(map[lease.State]int{lease.Free: 4})
		s.failure = trouble{c.err}
		if v := s.judge(time.Now()); v.Kind != c.kind || v.Level != levelBad || strings.Contains(v.Text, "\x1b") {
			t.Errorf("%v: got %+v, want %s", c.err, v, c.kind)
		}
	}
}

func TestVerdictOfAPoolThatIsNoLongerMeasured(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := pooled(map[lease.State]int{lease.Free: 4})
	for age, want := range map[time.Duration]string{time.Minute: "ok", unmeasuredAfter: "ok", unmeasuredAfter + time.Second: "unmeasured"} {
		s.model.pool.Measured = &protocol.Measured{At: now.Add(-age)}
		if v := s.judge(now); v.Kind != want {
			t.Errorf("measured %v ago: got %s, want %s", age, v.Kind, want)
		}
	}
}

func TestVerdictKeepsSince(t *testing.T) {
	s := pooled(map[lease.State]int{lease.Free: 4})
	at := time.Unix(1_800_000_000, 0)
	s.decide(at)
	if v := s.verdict; v.Since != at.UnixMilli() || !v.Before {
		t.Errorf("the first read: got %+v, want since %d or before", v, at.UnixMilli())
	}
	s.decide(at.Add(time.Minute))
	if got := s.verdict.Since; got != at.UnixMilli() {
		t.Errorf("nothing changed: got since %d, want %d", got, at.UnixMilli())
	}
	s.model.total.add(lease.Free, -4)
	s.model.total.add(lease.Held, 4)
	at = at.Add(time.Hour)
	s.decide(at)
	if v := s.verdict; v.Kind != "full" || v.Since != at.UnixMilli() || v.Before {
		t.Errorf("got %+v, want full since %d", v, at.UnixMilli())
	}
}

// The time until the pool is full is projected from its use, which grows from 10 % by one
// percent per turn of two seconds.
func TestFullIn(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var h history
	zero := 0
	add := func(used float64) {
		at = at.Add(2 * time.Second)
		h.push(at, &used, &zero, &zero)
	}
	for i := range leastFit - 1 {
		add(float64(10 + i))
	}
	if got := h.fullIn(); got != 0 {
		t.Errorf("%d points: got %v, want none", leastFit-1, got)
	}
	add(19)
	if got := h.fullIn().Round(time.Second); got != 162*time.Second {
		t.Errorf("got %v, want 2m42s", got)
	}
	h.gap(at) // the pool was not read, so the earlier use is unknown
	add(50)
	if got := h.fullIn(); got != 0 {
		t.Errorf("after a gap: got %v, want none", got)
	}
	for range 20 {
		add(50)
	}
	if got := h.fullIn(); got != 0 {
		t.Errorf("steady: got %v, want none", got)
	}
	for used := range 10 { // a fleet starts, and then is steady for three minutes
		add(50 + float64(used))
	}
	for range 90 {
		add(60)
	}
	if got := h.fullIn(); got != 0 {
		t.Errorf("steady after a start: got %v, want none", got)
	}
	h = history{}
	for i := range 60 { // the use rises at once, and then goes up and down
		add(min(float64(20*i), 62) + 2*float64(i%3))
	}
	add(62)
	if got := h.fullIn(); got != 0 {
		t.Errorf("up and down: got %v, want none", got)
	}
}

func TestAPageWeighsLittle(t *testing.T) {
	const limit = 200 << 10
	got := weight(t)
	t.Logf("%d bytes", got)
	if got > limit {
		t.Errorf("the page has %d bytes, want at most %d", got, limit)
	}
}
