package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// heading begins the page's table. The text before the table is written by hand.
const heading = "| mutant | file | caught by |\n|---|---|---|\n"

// nobody is the table's entry for a mutant that no test noticed.
const nobody = "NOBODY"

// readTable returns the text before a page's table, and for each mutant the tests that caught
// it.
func readTable(page string) (before string, caught map[string]string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return "", nil, err
	}
	before, rows, ok := strings.Cut(string(text), heading)
	if !ok {
		return "", nil, fmt.Errorf("%s has no table that begins with %q", page, heading)
	}
	caught = map[string]string{}
	for row := range strings.Lines(rows) {
		if cells := strings.Split(row, " | "); len(cells) == 3 {
			caught[strings.TrimPrefix(cells[0], "| ")] = strings.TrimSuffix(strings.TrimSpace(cells[2]), " |")
		}
	}
	return before, caught, nil
}

// record writes the tests that caught a mutant into a page's table. The other rows keep their
// content, but get the order of the list. Rows of mutants that no longer exist are removed.
func record(page, name, by string) error {
	before, caught, err := readTable(page)
	if err != nil {
		return err
	}
	caught[name] = by
	return os.WriteFile(page, []byte(render(before, caught)), 0o600)
}

// rewrite writes a page's table again, with the names, files and order of the list.
func rewrite(page string) error {
	before, caught, err := readTable(page)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(render(before, caught)), 0o600)
}

// checkTable returns an error unless a page's table contains the mutants of the list with
// their files, and each row names a test that would be run.
func checkTable(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, caught, err := readTable(page)
	if err == nil && render(before, caught) != string(text) {
		err = fmt.Errorf("the table of %s does not follow the list (names, files, order): run make docs", page)
	}
	errs := []error{err}
	for _, m := range mutants {
		if by := caught[m.name]; by != "" && !m.runs(by) {
			errs = append(errs, fmt.Errorf("%s: none of %q is in %s: record it again", m.name, by, m.tests))
		}
	}
	return errors.Join(errs...)
}

// render returns a page's text, with the table's rows in the order of the list.
func render(before string, caught map[string]string) string {
	var b strings.Builder
	b.WriteString(before + heading)
	for _, m := range mutants {
		if by := caught[m.name]; by != "" {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", m.name, strings.TrimPrefix(m.file, "pkg/"), by)
		}
	}
	return b.String()
}
