package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// idle makes all commands do nothing but parse their arguments and flags.
func idle(cmd *cobra.Command) {
	cmd.PersistentPreRun, cmd.PersistentPreRunE, cmd.PreRun, cmd.PreRunE, cmd.Run = nil, nil, nil, nil, nil
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	for _, sub := range cmd.Commands() {
		idle(sub)
	}
}

// Arguments never cause a panic, and wrong arguments are reported as such, with the usage.
func FuzzArguments(f *testing.F) {
	for _, args := range []string{
		"", "demo", "demo --size 7 --json", "demo --ttl=-3s", "list --table t --pool p", "list --table", "seed --size x", "reap -h", "help seed",
		"id 254863920394240012", "id -- -1", "exec -- true", "exec --table t --pool p -- sh -c x", "version --json=maybe", "--", "-", "--=", "demo -zzz", "completion bash", "__complete demo --",
	} {
		f.Add(strings.ReplaceAll(args, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		root := newRoot()
		idle(root)
		root.SetArgs(strings.Split(line, "\x00"))
		root.SetIn(strings.NewReader(""))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		var usage *usageError
		cmd, err := root.ExecuteC()
		if strings.HasPrefix(cmd.Name(), "__complete") {
			return // commands for shells, which cobra adds
		}
		if err != nil && (!errors.As(err, &usage) || cmd.UsageString() == "") {
			t.Errorf("%q: got %v, want a usage error", line, err)
		}
	})
}
