package main

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/nodelease/nodelease/internal/text"
)

// A line that is too long is broken between words if possible. No continuation line begins
// at the margin, and no text is lost.
func TestFolded(t *testing.T) {
	_, far := terminal(t)
	defer far.Close()
	for width := 20; width <= 200; width += 9 {
		if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: 40}); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"12 node IDs: 12 held, 0 free, 0 expired, 0 cooling, 0 retired, 0 corrupt", "  task " + strings.Repeat("x", 300), strings.Repeat("word --flag ", 30)} {
			got := folded(far, bad.of("%s", text.Trusted(line)), 4).String()
			for i, l := range strings.Split(got, "\n") {
				if w := lipgloss.Width(l); w > width || i > 0 && !strings.HasPrefix(ansi.Strip(l), "    ") {
					t.Errorf("got %d cells, want at most %d: %q", w, width, l)
				}
			}
			if a, b := strings.Join(strings.Fields(ansi.Strip(got)), ""), strings.Join(strings.Fields(line), ""); a != b {
				t.Errorf("at %d: %q became %q", width, line, got)
			}
			if strings.Contains(ansi.Strip(got), "-\n") {
				t.Errorf("at width %d a word is broken: %q", width, got)
			}
		}
	}
}

// A character of two cells ends no line of one cell, and is shown all the same.
func TestFoldedOnATinyTerminal(t *testing.T) {
	_, far := terminal(t)
	defer far.Close()
	for width := 1; width <= 3; width++ {
		if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: 40}); err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 1)
		go func() { done <- folded(far, bad.of("%s", "task a世界b"), 4).String() }()
		var got string
		select {
		case got = <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("at width %d: no end", width)
		}
		if want, is := "taska世界b", strings.Join(strings.Fields(ansi.Strip(got)), ""); is != want {
			t.Errorf("at width %d: got %q, want %q", width, is, want)
		}
	}
}
