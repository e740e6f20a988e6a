package main

import (
	"github.com/nodelease/nodelease/pkg/snowflake"
	"os"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A table is never wider than the terminal, and a task's name keeps its end, which
// distinguishes it from others. In a pipe nothing is cut.
func TestSheetFits(t *testing.T) {
	const arn = "arn:aws:ecs:eu-central-1:123456789012:task/cluster/0123456789abcdef0123456789abcdef"
	now := time.Now()
	l := &listed{at: now, Nodes: []listedNode{
		{Lease: lease.Lease{NodeID: 65535, Holder: "h", Task: arn, Version: 123456, ExpiresAt: now.Add(12 * time.Second), ReservedUntil: now.Add(13 * time.Second)}, State: lease.Held},
		{Lease: lease.Lease{NodeID: 3, ReservedUntil: now.Add(-time.Hour)}, State: lease.Free},
	}}
	if text := l.sheet(false).text(0).String(); !strings.Contains(text, arn) {
		t.Errorf("in a pipe: want the whole task, got\n%s", text)
	}
	for width := 20; width < 200; width += 7 {
		text := l.sheet(false).text(width).String()
		for line := range strings.Lines(text) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("got %d cells, want at most %d: %q", w, width, line)
			}
		}
		if width >= 70 && !strings.Contains(text, "89abcdef ") {
			t.Errorf("the end of the task's name is cut off:\n%s", text)
		}
	}
}

func TestDistance(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		0: "now", 12340 * time.Millisecond: "in 12.3s", -time.Hour: "1h0m0s ago", 90*time.Second + time.Millisecond: "in 1m30s",
		72 * time.Hour: "in 3 days", -50 * time.Hour: "2 days ago",
	} {
		if got := distance(now.Add(d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := distance(time.Time{}, now); got != "-" {
		t.Errorf("no time: got %q, want -", got)
	}
}

// Each change between two reads is reported once, by its name in the protocol.
func TestChanges(t *testing.T) {
	now := time.Now()
	node := func(version int64, holder string, state lease.State) listedNode {
		return listedNode{Lease: lease.Lease{NodeID: 1, Version: version, Holder: holder, Task: "task-" + holder, Retired: state == lease.Retired}, State: state}
	}
	for _, test := range []struct {
		was, is listedNode
		want    string
	}{
		{node(0, "", lease.Free), node(1, "a", lease.Held), "claimed"},
		{node(1, "a", lease.Expired), node(2, "b", lease.Held), "claimed"},
		{node(1, "a", lease.Held), node(1, "a", lease.Held), ""},
		{node(1, "a", lease.Held), node(1, "a", lease.Expired), "expired"},
		{node(1, "a", lease.Expired), node(1, "a", lease.Held), "renewed"},
		{node(1, "a", lease.Expired), node(1, "", lease.Free), "freed"},
		{node(1, "a", lease.Held), node(1, "", lease.Free), "released"},
		{node(1, "a", lease.Held), node(2, "", lease.Free), "released"},
		{node(1, "", lease.Free), node(1, "", lease.Retired), "retired"},
		{node(1, "", lease.Retired), node(1, "", lease.Free), "restored"},
		{node(1, "", lease.Cooling), node(1, "", lease.Free), ""},
	} {
		changes := changesBetween(&listed{Nodes: []listedNode{test.was}}, &listed{Nodes: []listedNode{test.is}, at: now})
		got := ""
		if len(changes) == 1 {
			got = changes[0].Kind
		}
		if got != test.want || len(changes) > 1 {
			t.Errorf("%+v, then %+v: %v, want %q", test.was, test.is, changes, test.want)
		}
	}
	first := changesBetween(nil, &listed{Nodes: []listedNode{node(1, "a", lease.Held), node(0, "", lease.Free)}})
	if len(first) != 1 || first[0].Kind != "held" {
		t.Errorf("the first read reports %v", first)
	}
	// A node ID whose item can be read again is not new.
	corrupt := &listed{Corrupt: leasepool.Corrupt{1: "no version"}}
	if again := changesBetween(corrupt, &listed{Nodes: []listedNode{node(0, "", lease.Free)}}); len(again) != 0 {
		t.Errorf("a free node ID that can be read again: got %v, want none", again)
	}
	if again := changesBetween(corrupt, &listed{Nodes: []listedNode{node(1, "a", lease.Held)}}); len(again) != 1 || again[0].Kind != "held" {
		t.Errorf("a held node ID that can be read again: got %v, want one held", again)
	}
	if made := changesBetween(&listed{}, &listed{Nodes: []listedNode{node(0, "", lease.Free)}}); len(made) != 1 || made[0].Kind != "made" {
		t.Errorf("a new node ID: got %v, want one made", made)
	}
}

// The live view fits into a terminal of any size.
func TestWatchFits(t *testing.T) {
	l := &listed{at: time.Now()}
	for n := range 300 {
		l.Nodes = append(l.Nodes, listedNode{Lease: lease.Lease{NodeID: n, Holder: "h", Task: strings.Repeat("task", 20), Version: 1, ExpiresAt: l.at}, State: lease.Held})
	}
	s := screen{frame: frame{title: text.Sprintf("nodelease watch %s", "orders")}}
	for width := 0; width < 130; width += 10 {
		for height := 0; height < 50; height += 5 {
			s.width, s.height = width, height
			for _, last := range []*listed{nil, l} {
				s.last, s.changes, s.outage = last, changesBetween(nil, l), outage{silence: time.Duration(width%20) * time.Second}
				lines := strings.Split(s.render(), "\n")
				if len(lines) > max(height, 1) {
					t.Errorf("got %d lines, want at most %d", len(lines), height)
				}
				for _, line := range lines {
					if w := lipgloss.Width(line); w > width {
						t.Errorf("got %d cells, want at most %d: %q", w, width, line)
					}
				}
			}
		}
	}
}

// Any text is either refused as an ID, or read, and then encoded to the same text.
func FuzzReadID(f *testing.F) {
	for _, s := range []string{"", "0", "249733066275188748", "06XSTWT80W0W0", "0x10", "0000000000000010", "11111111112", "zzzzzzzzzzz", "9223372036854775808", "äöü"} {
		f.Add(s, "")
		f.Add(s, "hex")
	}
	f.Fuzz(func(t *testing.T, s, from string) {
		id, as, err := readID(s, from, idLayout{Layout: snowflake.Default()}, time.Now())
		if err != nil {
			return
		}
		again, _, err := readID(encodings[as](id), as, idLayout{Layout: snowflake.Default()}, time.Now())
		if err != nil || again != id {
			t.Errorf("%q as %s: got %d, then %d, %v, want the same ID", s, as, id, again, err)
		}
		for _, name := range leasepool.LayoutNames() {
			l, err := leasepool.ParseLayout(name)
			if err != nil {
				t.Fatal(err)
			}
			p := idLayout{name: name, Layout: l}.takeApart(id)
			if p.Time.IsZero() || p.Node < 0 || p.Sequence < 0 {
				t.Errorf("%d with %s: got %+v, want a time, a node and a sequence", id, name, p)
			}
		}
	})
}

// Output that does not go to a terminal has no colours.
func TestNoColoursElsewhere(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := say(file, text.Sprintf("%s%s", bad.of("bad"), bold.of("bold"))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file.Name()); err != nil || string(got) != "badbold" {
		t.Errorf("got %q, %v, want badbold", got, err)
	}
}
