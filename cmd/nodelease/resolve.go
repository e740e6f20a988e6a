package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/discovery"
)

func newResolve(g *globals) *cobra.Command {
	var key string
	var keys bool
	cmd := &cobra.Command{
		Use:   "resolve NAME",
		Short: "Show the live instances of a service, or of a key of an endpoint",
		Long: "Show the live instances of a service: node ID, version and address. With --key, NAME is an endpoint, and the instances\n" +
			"are those at that key (--key \"\" for no key); with --keys, the endpoint's keys are listed.",
		Example: "  nodelease resolve stock --table leases --pool orders\n" +
			"  nodelease resolve shard --keys --table leases --pool orders\n" +
			"  nodelease resolve shard --key 7 --table leases --pool orders --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one service or endpoint; to list them: %s", g.again("services"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if keys && cmd.Flags().Changed("key") {
				return usagef("--key shows the instances at one key, --keys lists the keys: use only one of them")
			}
			directory, err := g.directory(cmd.Context())
			if err != nil {
				return err
			}
			if keys {
				return g.listKeys(cmd, directory, args[0])
			}
			lookup, err := directory.Service(args[0])
			if cmd.Flags().Changed("key") {
				lookup, err = directory.Endpoint(args[0], key)
			}
			if err != nil {
				return &usageError{err}
			}
			instances, err := lookup.Resolve(cmd.Context())
			if err != nil {
				return err
			}
			for i := range instances {
				instances[i].Holder = text.Session(instances[i].Holder)
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"instances": append([]discovery.Instance{}, instances...)})
			}
			if len(instances) == 0 {
				return say(cmd.OutOrStdout(), text.Sprintf("no live instance of %s in pool %s\n", args[0], g.pool))
			}
			return say(cmd.OutOrStdout(), sheetOf(instances).text(widthOf(cmd.OutOrStdout())))
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "NAME is an endpoint: show the instances at this `key`")
	cmd.Flags().BoolVar(&keys, "keys", false, "NAME is an endpoint: list its keys")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return g.serviceNames(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// serviceNames returns the completions of NAME, or none if they cannot be read.
func (g *globals) serviceNames(ctx context.Context, args []string) []string {
	// Invariant (liveness): a user who pressed Tab does not wait for an outage.
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	directory, err := g.directory(ctx)
	if err != nil || len(args) > 0 {
		return nil
	}
	names, _ := directory.Services().List(ctx) // no names after an error
	return names
}

func (g *globals) listKeys(cmd *cobra.Command, d *discovery.Directory, endpoint string) error {
	names, err := d.Keys(endpoint)
	if err != nil {
		return &usageError{err}
	}
	keys, err := names.List(cmd.Context())
	if err != nil {
		return err
	}
	if g.json {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"keys": append([]string{}, keys...)})
	}
	if len(keys) == 0 {
		return say(cmd.OutOrStdout(), text.Sprintf("no live instance at any key of %s in pool %s\n", endpoint, g.pool))
	}
	var b text.Builder
	for _, key := range keys {
		if key == "" {
			key = "(no key)"
		}
		b.Printf("%s\n", key)
	}
	return say(cmd.OutOrStdout(), b.Safe())
}

func sheetOf(instances []discovery.Instance) sheet {
	s := sheet{headers: []string{"NODE", "VERSION", "ADDRESS", "ZONE", "WEIGHT", "LABELS"}, long: 5}
	for _, i := range instances {
		address := i.Host
		if i.Port != 0 {
			address = i.HostPort()
		}
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(i.Labels)) {
			labels = append(labels, name+"="+i.Labels[name])
		}
		s.rows = append(s.rows, []string{strconv.Itoa(i.NodeID), strconv.FormatInt(i.Version, 10), address, i.Zone, strconv.Itoa(max(i.Weight, 1)), strings.Join(labels, " ")})
	}
	return s
}
