package growth

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/tenure"
)

var whole = flag.Bool("whole", false, "simulate whole weeks and fleets, which takes minutes")

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// grows returns the timings that docs/operations.md describes.
func grows() tenure.Timings { return tenure.Timings{MaxTTL: 15 * time.Minute} }

// fleet returns a fleet without processes. The test fails if an invariant is violated.
func fleet(t *testing.T, c Config) *Fleet {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f.Wrong != nil {
			t.Error(f.Wrong)
		}
	})
	return f
}

// said compares the row of docs/cost.md that begins with first with the simulation. They may
// differ by 5 % or, for whole weeks, whose crashes are different, by 10 %.
func said(t *testing.T, first string, want ...float64) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	var figures []string
	for _, w := range want {
		figures = append(figures, fmt.Sprintf("%.2f", w))
	}
	_, rest, found := strings.Cut(string(page), "\n| "+first+" | ")
	if !found {
		t.Errorf("docs/cost.md has no row %q with %v", first, figures)
		return
	}
	row, _, _ := strings.Cut(rest, "\n")
	cells := strings.Split(row, "|")
	if len(cells) < len(want) {
		t.Fatalf("docs/cost.md: row %q has %d cells, want %v", first, len(cells), figures)
	}
	part := 20.
	if *whole {
		part = 10
	}
	for i, w := range want {
		got, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(cells[i]), ",", ""), 64)
		if err != nil || math.Abs(got-w) > max(w/part, 0.005) {
			t.Errorf("docs/cost.md: row %q has %s, want %s (%v)", first, cells[i], figures[i], figures)
		}
	}
}
