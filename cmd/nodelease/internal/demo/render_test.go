package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

func testSnapshot(nodeIDs, news int) Snapshot {
	s := Snapshot{Options: Defaults(), Elapsed: 12 * time.Second, PerSecond: 123456, History: []float64{0, 1, 5, 9}}
	s.IDs = 12345678
	states := []string{"held", "suspended", "frozen", "dead", "expired", "cooling", "free"}
	for n := range nodeIDs {
		s.NodeIDs = append(s.NodeIDs, NodeID{Node: n, State: states[n%len(states)], Task: fmt.Sprintf("task-%d", n), Version: int64(n), PerSecond: 99999, ClockOff: time.Duration(n % 2)})
	}
	for n := range news {
		s.News = append(s.News, News{At: time.Duration(n) * time.Second, Kind: "claimed", Text: fmt.Sprintf("news %d: %s", n, strings.Repeat("long ", 40))})
	}
	return s
}

// For any size of terminal and pool, nothing is wider or higher than the terminal, and the
// latest events are visible if there is room for any.
func TestRenderFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 12}, {120, 20}, {10, 3}, {1, 1}} {
		for _, nodeIDs := range []int{0, 1, 12, 100, 1024} {
			width, height := size[0], size[1]
			s := testSnapshot(nodeIDs, 50)
			if nodeIDs%2 == 0 {
				s.Elapsed = s.Duration // the demo is over
			}
			text := s.render(width, height)
			lines := strings.Split(text, "\n")
			if len(lines) > height {
				t.Errorf("%d node IDs on %v: got %d lines, want at most its height", nodeIDs, size, len(lines))
			}
			for _, line := range lines {
				if w := lipgloss.Width(line); w > width {
					t.Errorf("%d node IDs on %v: got %d cells, want at most its width: %q", nodeIDs, size, w, line)
				}
			}
			if height >= 20 && !strings.Contains(text, "news 49") {
				t.Errorf("%d node IDs on %v: the latest events are not shown", nodeIDs, size)
			}
		}
	}
}

func TestRenderSays(t *testing.T) {
	s := testSnapshot(12, 3)
	s.Homeless, s.Leader = []string{"task-20", "task-21"}, "task-7"
	text := ansi.Strip(s.render(100, 30))
	for _, want := range []string{"12,345,678 IDs compared", "0 duplicates", "123,456 a second", "● 0", "‖ 2", "✖ 3", "task-3", "v11", "suspended", "task-7 leads", "without a node ID: task-20, task-21", "▁▁▄█"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	s.Duplicates, s.Outage = 1234, true
	text = ansi.Strip(s.render(100, 30))
	for _, want := range []string{"1,234 DUPLICATES", "DynamoDB IS DOWN"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is shown as %s", n, got)
		}
	}
}
