package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The prices are those of docs/cost.md.
func TestPrices(t *testing.T) {
	page, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, price := range map[string]float64{"metric": priceMetric, "alarm": priceAlarm} {
		row := regexp.MustCompile(`(?m)^\| ` + name + ` \| ([0-9.]+) \|`).FindSubmatch(page)
		if row == nil {
			t.Fatalf("docs/cost.md has no price named %s", name)
		}
		if says, err := strconv.ParseFloat(string(row[1]), 64); err != nil || says != price {
			t.Errorf("%s costs %v here, and %s in docs/cost.md", name, price, row[1])
		}
	}
	if want := "there are " + strconv.Itoa(poolGauges) + " metrics"; !strings.Contains(string(page), want) {
		t.Errorf("docs/cost.md does not say that %s", want)
	}
}

func testRun(emulator bool) *run {
	a := &account{id: "123456789012", region: "eu-west-1", emulator: emulator}
	return newRun(a, &template{}, options{run: "r"}, io.Discard)
}

// On an emulator, only checks that it is known not to be able to show may end as not possible here. On AWS, no check may.
func TestOutcomes(t *testing.T) {
	for _, emulator := range []bool{false, true} {
		for _, c := range checks {
			r := testRun(emulator)
			r.judge(c.name, io.ErrUnexpectedEOF, "")
			want := failedCheck
			if emulator && c.emulator != "" {
				want = notHere
			}
			if got := r.result(c.name); got.outcome != want || got.detail == "" {
				t.Errorf("%s, emulator %v: %+v, want %s with a reason", c.name, emulator, got, want)
			}
		}
	}
}

// A check that was never reached counts as failed, so that the report of a run that stopped early does not look like a
// success.
func TestNotReached(t *testing.T) {
	r := testRun(false)
	r.judge("deploy", nil, "seen")
	if r.count(seenCheck) != 1 || r.count(failedCheck) != len(checks)-1 || r.count(notHere) != 0 {
		t.Errorf("%d seen, %d failed, %d not here", r.count(seenCheck), r.count(failedCheck), r.count(notHere))
	}
}

// Only the first result of a check is recorded, so that a later success cannot hide a failure.
func TestFirstWordCounts(t *testing.T) {
	r := testRun(false)
	r.judge("claim", io.ErrUnexpectedEOF, "")
	r.judge("claim", nil, "seen")
	if r.result("claim").outcome != failedCheck {
		t.Errorf("claim is %v", r.result("claim"))
	}
}

func TestReport(t *testing.T) {
	r := testRun(false)
	r.began = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	r.judge("deploy", nil, "a | b\nc")
	text := r.report()
	for _, want := range []string{"# Run on AWS, 2026-11-22", "…9012", "1 checks seen", "| a ¦ b c |", "not reached"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "123456789012") {
		t.Error("the report, which is committed, contains the account number")
	}
}

// The results of an emulator cannot be written as a report about AWS.
func TestNoEmulatorAmongTheVerified(t *testing.T) {
	r := testRun(true)
	path := filepath.Join(t.TempDir(), "docs", "verified", "2026-11-22.md")
	if _, err := r.writeReport(path); err == nil {
		t.Error("the report of an emulator was written to docs/verified")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there")
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "-x", "a b", "a/b", strings.Repeat("a", 65), "a_b"} {
		if checkRunName(bad) == nil {
			t.Errorf("%q is taken as a run's name", bad)
		}
	}
	if name := newRunName(time.Now()); checkRunName(name) != nil {
		t.Errorf("the program's own name %q is refused", name)
	}
	if steps, err := without("watch,kill"); err != nil || len(steps) != len(allSteps)-2 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
	if _, err := without("wach"); err == nil || !strings.Contains(err.Error(), "watch") {
		t.Errorf("a wrong step: %v, want the right ones in the error", err)
	}
}

// A draw contains different moments in their order. The same seed always draws the same moments, and every moment is drawn
// by some seed.
func TestDraw(t *testing.T) {
	all := make([]moment, 18)
	for i := range all {
		all[i].line = string(rune('a' + i))
	}
	if got := draw(all, 0, 1); len(got) != len(all) {
		t.Errorf("%d moments without a draw, want all %d", len(got), len(all))
	}
	seen := map[string]bool{}
	for seed := range uint64(100) {
		got := draw(all, 3, seed)
		if len(got) != 3 || got[0].line >= got[1].line || got[1].line >= got[2].line {
			t.Fatalf("seed %d: %v, want three in their order", seed, got)
		}
		if !slices.Equal(got, draw(all, 3, seed)) {
			t.Fatalf("seed %d draws two different times", seed)
		}
		for _, m := range got {
			seen[m.line] = true
		}
	}
	if len(seen) != len(all) {
		t.Errorf("a hundred draws have %d moments, want all %d", len(seen), len(all))
	}
}
