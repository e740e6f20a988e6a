package main

import (
	"strings"
	"testing"
)

// A misspelled name runs nothing, which does not look like a mutant that a test has noticed.
func TestNameOfNoMutant(t *testing.T) {
	if err := run("a name that no mutant has", "", false); err == nil || !strings.Contains(err.Error(), "a name that no mutant has") {
		t.Errorf("got %v, want an error with the name", err)
	}
}
