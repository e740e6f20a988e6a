package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The commands, their flags and the meaning of each are a contract: testdata/help.golden is the output of --help.
func TestHelpBaseline(t *testing.T) {
	var page strings.Builder
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		words := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		code, stdout, stderr := call(words...)
		if code != 0 || stderr != "" {
			t.Errorf("%v: exit code %d, want 0: %s", words, code, stderr)
		}
		fmt.Fprintf(&page, "=== %s --help\n%s\n", cmd.CommandPath(), stdout)
		for _, c := range cmd.Commands() {
			if !c.Hidden && c.Name() != "help" {
				add(c)
			}
		}
	}
	root := newRoot()
	root.InitDefaultCompletionCmd()
	add(root)
	golden(t, filepath.Join("testdata", "help.golden"), []byte(page.String()), "\x00")
}
