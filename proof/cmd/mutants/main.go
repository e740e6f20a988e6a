// Command mutants weakens the protocol's conditions and guards one at a time
// and reports which test notices. A mutant that nobody notices is a condition
// without a test, and makes the command fail.
//
//	go run ./proof/cmd/mutants [-run substring] [-table docs/mutants.md [-resume]]
//	go run ./proof/cmd/mutants -check    # only that each can still be made, where docs/mutants.md says
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("run", "", "only mutants whose name contains this")
	table := flag.String("table", "", "record what noticed in the table of this page")
	resume := flag.Bool("resume", false, "skip those that the table has already")
	check := flag.Bool("check", false, "run nothing; tell which mutants cannot be made any more, or stand elsewhere than docs/mutants.md says")
	flag.Parse()
	do := func() error { return run(*only, *table, *resume) }
	if *check {
		do = checkAll
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// checkAll reports the mutants that no longer match the code, and whether the recorded
// table still names their files.
func checkAll() error {
	errs := []error{checkTable("docs/mutants.md")}
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.name] {
			errs = append(errs, fmt.Errorf("two mutants are called %q", m.name))
		}
		seen[m.name] = true
		if _, err := m.source(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

func run(only, table string, resume bool) error {
	recorded := map[string]string{}
	if resume {
		_, rows, err := readTable(table)
		if err != nil {
			return err
		}
		recorded = rows
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(out, "mutant\tcaught by\tseconds")
	survivors := 0
	var broken []error
	for _, m := range mutants {
		if by := recorded[m.name]; !strings.Contains(m.name, only) || by != "" && by != nobody {
			continue
		}
		began := time.Now()
		caught, err := m.try(dir)
		if err != nil { // the others are tried all the same
			broken = append(broken, fmt.Errorf("%s: %w", m.name, err))
			continue
		}
		if caught == "" {
			survivors++
			caught = nobody
		}
		fmt.Fprintf(out, "%s\t%s\t%.0f\n", m.name, caught, time.Since(began).Seconds())
		out.Flush()
		if table != "" {
			if err := record(table, m.name, caught); err != nil {
				return err
			}
		}
	}
	if survivors > 0 {
		broken = append(broken, fmt.Errorf("%d survived", survivors))
	}
	return errors.Join(broken...)
}
