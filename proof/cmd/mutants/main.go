// Command mutants weakens the product's conditions and guards, one at a time, and reports
// which tests fail. If no test notices a mutant, the condition has no test, and the
// command fails.
//
//	go run ./proof/cmd/mutants [-run substring] [-table docs/mutants.md [-resume]]
//	go run ./proof/cmd/mutants -check    # only check that each mutant can still be made, in the file that docs/mutants.md names
//	go run ./proof/cmd/mutants -update   # rewrite the names, files and order of docs/mutants.md
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("run", "", "only mutants whose name contains this")
	table := flag.String("table", "", "record the failing tests in the table of this page")
	resume := flag.Bool("resume", false, "skip those that are already in the table")
	check := flag.Bool("check", false, "run nothing; list the mutants that can no longer be made, or are elsewhere than "+page+" says")
	update := flag.Bool("update", false, "run nothing; write the names, files and order of the table in "+page+" again")
	flag.Parse()
	do := func() error { return run(*only, *table, *resume) }
	switch {
	case *check:
		do = checkAll
	case *update:
		do = func() error { return rewrite(page) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// page is the file with the recorded table.
const page = "docs/mutants.md"

// checkAll returns an error that names the mutants that cannot be made from the current
// code, and the differences between the recorded table and the list.
func checkAll() error {
	errs := []error{checkTable(page)}
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.name] {
			errs = append(errs, fmt.Errorf("two mutants are named %q", m.name))
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
	if !slices.ContainsFunc(mutants, func(m mutant) bool { return strings.Contains(m.name, only) }) {
		return fmt.Errorf("no mutant has %q in its name, so that nothing was run", only)
	}
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
		if err != nil { // try the others all the same
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
