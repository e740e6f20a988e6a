// Command generator compares pkg/snowflake with its peers and with the limits of the machine,
// and reports which of its targets it meets.
//
//	cd bench && go run ./generator                  print everything, about 5 minutes
//	cd bench && go run ./generator -out ../docs     also write the page and its picture
//	cd bench && go run ./generator -runs 3          a quick run
//
// Every figure is the median of -runs runs, with the smallest and the largest next to it. The
// contenders take turns. Below the cap, a run consists of ten slices, of which only the
// fastest is used, since other load on the machine can only add time. All figures of a table
// come from one run of this program: compare them with each other, but not with those of
// another machine or another day.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	var (
		runs  = flag.Int("runs", 10, "runs of each figure, of which the median is taken")
		slice = flag.Duration("slice", 100*time.Millisecond, "length of one run below the cap; at the cap five times that")
		out   = flag.String("out", "", "directory for benchmarks-generator.md and .svg")
		note  = flag.String("note", "", "a remark for the page, such as other load on the machine")
		spin  = flag.Bool("spin", false, "only keep one core busy, as the busy neighbour")
	)
	flag.Parse()
	if *spin {
		spinForever()
	}
	if err := run(*runs, *slice, *out, *note); err != nil {
		fmt.Fprintln(os.Stderr, "generator:", err)
		os.Exit(1)
	}
}

func run(runs int, slice time.Duration, out, note string) error {
	r := report{machine: describe(), command: "go run ./generator " + flags(), note: note, runs: runs}
	var err error
	progress("below the cap")
	if r.below, err = measureAll(ungated(), []int{1, 2, 64}, runs, slice, options{slices: 10}); err != nil {
		return err
	}
	progress("at the cap")
	if r.cap, err = measureAll(atTheCap(), []int{1, 2, 64}, runs, 5*slice, options{latency: true}); err != nil {
		return err
	}
	progress("at the cap, with busy neighbours")
	if r.busy, err = measureAll(atTheCap()[:2], []int{1, 64}, runs, 10*slice, options{neighbours: 4}); err != nil {
		return err
	}
	progress("correctness")
	if r.checks, err = checkAll(); err != nil {
		return err
	}
	page := r.markdown()
	fmt.Print(page)
	if out == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(out, "benchmarks-generator.md"), []byte(page), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "benchmarks-generator.svg"), []byte(r.picture()), 0o644)
}

func flags() string {
	s := ""
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "note" && f.Name != "out" {
			s += fmt.Sprintf("-%s %s ", f.Name, f.Value)
		}
	})
	return s
}

func progress(what string) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05"), what) }
