package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/cli.md lists every flag of every command as --help explains it.
func TestFlagsPage(t *testing.T) {
	t.Setenv("NODELEASE_TABLE", "")
	t.Setenv("NODELEASE_POOL", "")
	var table strings.Builder
	table.WriteString("| command | flag | meaning |\n|---|---|---|\n")
	flags := 0
	add := func(command string, set *pflag.FlagSet) {
		set.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			flags++
			name, meaning := pflag.UnquoteUsage(f)
			flag := strings.TrimSpace("--" + f.Name + " " + name)
			if f.Shorthand != "" {
				flag = "-" + f.Shorthand + ", " + flag
			}
			if d := f.DefValue; d != "" && d != "0" && d != "0s" && d != "false" && d != "[]" && !strings.Contains(meaning, "(default") {
				meaning += " (default: `" + d + "`)"
			}
			fmt.Fprintf(&table, "| %s | `%s` | %s |\n", command, flag, strings.ReplaceAll(meaning, "|", `\|`))
		})
	}
	root := newRoot()
	add("all", root.PersistentFlags())
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				add("`"+strings.TrimPrefix(c.CommandPath(), "nodelease ")+"`", c.LocalNonPersistentFlags())
				visit(c)
			}
		}
	}
	visit(root)
	if flags < 50 {
		t.Fatalf("found %d flags, want those of all commands", flags)
	}
	const file, begin, end = "../../docs/cli.md", "<!-- flags: go test ./cmd/nodelease -run TestFlagsPage -update -->\n", "<!-- end of flags -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has nothing between %q and %q", file, begin, end)
	}
	want := before + begin + table.String() + end + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("the flags of %s differ from those of the commands: run make docs; want\n%s", file, table.String())
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
