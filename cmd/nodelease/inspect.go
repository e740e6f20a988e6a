package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/pkg/lease"
)

func newInspect(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect NODE",
		Short: "Show all that is known of one number",
		Long: "Show all that the table knows of one number: who holds it or held it last, its version (the fencing token), when the lease\n" +
			"expires, and the milliseconds that its holder may stamp into IDs.",
		Example: "  nodelease inspect 7 --table leases --pool orders\n  nodelease inspect 7 --table leases --pool orders --json",
		Args:    oneArg("a node ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := g.node(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			now := time.Now()
			if g.json {
				return writeJSON(cmd.OutOrStdout(), listedNode{l, l.State(now)})
			}
			return say(cmd.OutOrStdout(), inspected(l, now)+nextStep(g, l, now))
		},
	}
}

// inspected tells what is known of a number.
func inspected(l lease.Lease, now time.Time) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %s %s\n", faint.Render(fmt.Sprintf("%-14s", name)), fmt.Sprintf(format, args...))
	}
	state := l.State(now)
	fmt.Fprintf(&b, "%s of pool %s is %s\n", bold.Render(fmt.Sprintf("node %d", l.NodeID)), l.Pool, stateStyle(state).Render(string(state)))
	switch {
	case l.Version == 0:
		line("task", "nobody ever held it")
	case l.Holder == "":
		line("last task", "%s", l.Task)
	default:
		line("task", "%s", l.Task)
		line("session", "%s", l.Holder)
	}
	line("version", "%d (fencing token: it grows each time the number changes hands)", l.Version)
	if l.Holder != "" {
		line("expires", "%s", moment(l.ExpiresAt, now))
		line("lease", "%v, renewed %d times", l.TTL, l.Renewal)
	}
	if !l.NotBefore.IsZero() {
		line("IDs after", "%s", moment(l.NotBefore, now))
	}
	line("reserved until", "%s", moment(l.ReservedUntil, now))
	if l.Layout > 0 {
		line("layout", "%d (of the widening that it was marked with last)", l.Layout)
	}
	for _, k := range slices.Sorted(maps.Keys(l.Metadata)) {
		line(k, "%s", l.Metadata[k])
	}
	return b.String()
}

// nextStep says what one can do about a number in this state.
func nextStep(g *globals, l lease.Lease, now time.Time) string {
	switch l.State(now) {
	case lease.Held:
		return fmt.Sprintf("To take it from its holder: %s\n", g.again(fmt.Sprintf("release %d --version %d", l.NodeID, l.Version)))
	case lease.Expired:
		return "Its holder has not renewed in time: it is gone, or cut off. Claimants take the number by themselves; nothing needs to be done.\n"
	case lease.Cooling:
		return fmt.Sprintf("It can be claimed in about %v, when what its last holder had reserved has passed; nothing may shorten that.\n", l.ReservedUntil.Sub(now).Round(time.Second))
	case lease.Retired:
		return "It is out of use since the pool was made smaller; nodelease resize to a larger size takes it back into use.\n"
	}
	return ""
}
