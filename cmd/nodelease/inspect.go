package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

func newInspect(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect NODE",
		Short: "Show everything known about one node ID",
		Long: "Show everything the table knows about one node ID: who holds it or held it last, its version (the fencing token), when the lease\n" +
			"expires, and the milliseconds that its holder may stamp into IDs.",
		Example:           "  nodelease inspect 7 --table leases --pool orders\n  nodelease inspect 7 --table leases --pool orders --json",
		Args:              oneArg("a node ID"),
		ValidArgsFunction: g.completeNodes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := g.node(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			now := time.Now()
			if g.json {
				return writeJSON(cmd.OutOrStdout(), listedAs(l, now))
			}
			return say(cmd.OutOrStdout(), text.Sprintf("%s%s", inspected(cmd.OutOrStdout(), l, now), nextStep(g, l, now)))
		},
	}
}

// inspected describes a node ID, as shown on out. Lines with text that the holder wrote
// are marked.
func inspected(out io.Writer, l lease.Lease, now time.Time) text.Safe {
	var b text.Builder
	line := func(name string, value text.Safe) {
		b.Printf("%s\n", folded(out, text.Sprintf("  %s %s", faint.of("%-14s", name), value), 17))
	}
	state := l.State(now)
	b.Printf("%s of pool %s is %s\n", bold.of("node %d", l.NodeID), l.Pool, stateInk(state).of("%s", state))
	switch {
	case l.Version == 0:
		line("task", text.Sprintf("it was never held"))
	case l.Holder == "":
		line("last task", text.Sprintf("%s", l.Task))
	default:
		line("task", text.Sprintf("%s", l.Task))
		line("session", text.Sprintf("%s", text.Session(l.Holder)))
		if at, ok := began(l.Holder); ok {
			line("held since", text.Sprintf("%s", moment(at, now)))
		}
	}
	line("version", text.Sprintf("%d (fencing token: it grows each time the node ID changes hands)", l.Version))
	if l.Holder != "" {
		line("expires", text.Sprintf("%s", moment(l.ExpiresAt, now)))
		line("lease", text.Sprintf("%v, renewed %s", l.TTL, count(int(l.Renewal), "time", "times")))
	}
	if !l.NotBefore.IsZero() {
		line("IDs after", text.Sprintf("%s", moment(l.NotBefore, now)))
	}
	line("reserved until", text.Sprintf("%s", moment(l.ReservedUntil, now)))
	if until := l.IDsUntil(); !until.IsZero() {
		line("IDs until", text.Sprintf("%s, if DynamoDB went away now", moment(until, now)))
	}
	if l.WidenTry > 0 {
		line("widening", text.Sprintf("%d (the latest try that it was marked with)", l.WidenTry))
	}
	if p := l.Predecessor(); p != nil {
		line("holder before", before(p))
	}
	metadata := withheld(l.Metadata)
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		line("metadata", text.Sprintf("%s=%s", k, metadata[k]))
	}
	return b.Safe()
}

// endings describe in words how a lease ended.
var endings = map[lease.Ending]string{
	lease.EndReleased: "it released the node ID", lease.EndExpired: "it stopped renewing", lease.EndFreed: "an operator, a raise or a copy of its process freed it",
}

// began returns when a session began. A session's ID is a UUIDv7, made for each claim, so
// it contains the time.
func began(session string) (time.Time, bool) {
	id, err := uuid.Parse(session)
	if err != nil || id.Version() != 7 {
		return time.Time{}, false
	}
	s, ns := id.Time().UnixTime()
	return time.Unix(s, ns), true
}

// before describes the previous holder and how its lease ended.
func before(p *protocol.Previous) text.Safe {
	since := text.Safe{}
	if at, ok := began(p.Session); ok {
		since = text.Sprintf(", since %s", at.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	how, known := endings[p.Ended]
	if !known {
		how = p.Ended
	}
	return text.Sprintf("session %s, version %d%s; %s", text.Session(p.Session), p.Version, since, how)
}

// nextStep suggests the next command for a node ID in this state.
func nextStep(g *globals, l lease.Lease, now time.Time) text.Safe {
	switch l.State(now) {
	case lease.Held:
		return text.Sprintf("To take it from its holder: %s\n", command(g.again(fmt.Sprintf("release %d --version %d", l.NodeID, l.Version))))
	case lease.Expired:
		return text.Sprintf("Its holder has not renewed in time: it is gone, or cut off. Claimants will take the node ID; you need not do anything.\n")
	case lease.Cooling:
		return text.Sprintf("It can be claimed in about %v, once the reserved time has passed; nothing can shorten that.\n", l.ReservedUntil.Sub(now).Round(time.Second))
	case lease.Retired:
		return text.Sprintf("It has been out of use since the pool was made smaller; a larger size brings it back: %s\n", command(g.again("resize --size N")))
	}
	return text.Safe{}
}
