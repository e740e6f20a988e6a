package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/text"
)

func newDemo(g *globals) *cobra.Command {
	o := demo.Defaults()
	var plain, noWait bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a fleet of real processes lease node IDs, be killed and frozen, and never make an ID twice",
		Long: "Start a small DynamoDB on this machine and a fleet of real processes that lease node IDs from it and make IDs;\n" +
			"kill, freeze, stop and restart them, move their clocks, and compare every ID of every process with every other.\n" +
			"It needs no AWS account, ends by itself, and leaves nothing behind. Exit code 1 if an ID was made twice.",
		Example: "  nodelease demo\n  nodelease demo --outage\n  nodelease demo --ui --duration 5m\n  nodelease demo --tasks 5 --size 3\n  nodelease demo --json | tail -1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.endpoint != "" {
				return usagef("--endpoint %s: the demo starts a DynamoDB of its own, and breaks it on purpose", g.endpoint)
			}
			if noWait {
				if cmd.Flags().Changed("wait") {
					return usagef("--wait and --no-wait exclude each other")
				}
				o.Wait = 0
			}
			if g.table != "" {
				o.Table = g.table
			}
			if g.pool != "" {
				o.Pool = g.pool
			}
			if !cmd.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1_000_000)
			}
			if o.Outage {
				d := demo.OutageDefaults()
				unset := func(flag string) bool { return !cmd.Flags().Changed(flag) }
				if unset("size") {
					o.Size = max(d.Size, 4*o.Tasks)
				}
				if unset("ttl") {
					o.TTL = d.TTL
				}
				if unset("duration") {
					o.Duration = d.Duration
				}
			}
			if err := o.Validate(); err != nil {
				return &usageError{err}
			}
			return runDemo(cmd, g, o, plain)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Tasks, "tasks", o.Tasks, "size of the fleet; each task is a process")
	f.IntVar(&o.Size, "size", o.Size, "size of the pool, 1 to 1024; with --outage by default four for each task, at least 32")
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long the fleet runs; with --outage 1m by default")
	f.DurationVar(&o.TTL, "ttl", o.TTL, "length of the leases, 1s to 24h; with --outage 2s by default, and they grow with the age of a task")
	f.DurationVar(&o.Wait, "wait", o.Wait, "how long a task waits for a free node ID")
	f.BoolVar(&noWait, "no-wait", false, "a task that finds no free node ID exits, and is started again")
	f.BoolVar(&o.Outage, "outage", false, "also kill -9 the DynamoDB for longer than a short lease, and start it again with its data: tasks that are old enough keep making IDs")
	f.BoolVar(&o.Page, "ui", false, "also show the pool on a page for the browser, and print its address")
	f.Uint64Var(&o.Seed, "seed", 0, "random seed of the plan of events (default: a new one for each run)")
	f.IntVar(&o.Port, "port", 0, "where the DynamoDB listens on 127.0.0.1 (default: a free port)")
	f.BoolVar(&plain, "plain", false, "print lines of text, even on a terminal")
	return cmd
}

// runDemo runs the demo and shows it as a live view on a terminal, and otherwise as plain
// lines. With --json, stdout has only the summary.
func runDemo(cmd *cobra.Command, g *globals, o demo.Options, plain bool) error {
	asJSON := g.json
	out := cmd.OutOrStdout()
	if asJSON {
		out = cmd.ErrOrStderr()
	}
	g.answers.ready() // the demo ends by itself
	err := say(out, text.Sprintf("%s on %s, leases of %v, for %v; to repeat the plan: %s\n",
		demo.Count(o.Tasks, "task"), demo.Count(o.Size, "node ID"), o.TTL, o.Duration, command(repeat(o))))
	if err == nil && demo.Unsafe() {
		err = say(out, text.Sprintf("THIS BUILD BREAKS THE PROTOCOL ON PURPOSE: claims ignore who holds a node ID. Duplicates will come.\n"))
	}
	if err != nil {
		return err
	}
	var view demo.View = demo.Plain{Out: out}
	if !asJSON && !plain && isTerminal(cmd.InOrStdin()) && isTerminal(out) && os.Getenv("TERM") != "dumb" {
		view = demo.Live{In: cmd.InOrStdin(), Out: out}
	}
	sum, err := demo.Run(cmd.Context(), o, view)
	if asJSON {
		if err := writeJSON(cmd.OutOrStdout(), sum); err != nil {
			return err
		}
	} else if sum.Seconds > 0 {
		if err := say(out, text.Trusted(sum.Text())); err != nil { // the demo's own figures, in colours
			return err
		}
	}
	return err
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// repeat returns the command that runs the same plan again.
func repeat(o demo.Options) string {
	words := []string{"nodelease", "demo", fmt.Sprintf("--seed %d", o.Seed)}
	d := demo.Defaults()
	if o.Outage {
		d = demo.OutageDefaults()
		d.Size = max(d.Size, 4*o.Tasks)
	}
	add := func(differs bool, format string, v ...any) {
		if differs {
			words = append(words, fmt.Sprintf(format, v...))
		}
	}
	add(o.Tasks != d.Tasks, "--tasks %d", o.Tasks)
	add(o.Size != d.Size, "--size %d", o.Size)
	add(o.Duration != d.Duration, "--duration %v", o.Duration)
	add(o.TTL != d.TTL, "--ttl %v", o.TTL)
	add(o.Wait == 0, "--no-wait")
	add(o.Outage, "--outage")
	add(o.Page, "--ui")
	return strings.Join(words, " ")
}

// newDemoTask returns the command that the demo starts as a task.
func newDemoTask() *cobra.Command {
	return &cobra.Command{
		Use:    demo.TaskCommand,
		Short:  "A task of the demo",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunTask(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
