package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

const (
	// completionLimit is the longest time that a user who pressed Tab waits.
	completionLimit = time.Second
	// mostCompletions is the largest number of completions offered at once.
	mostCompletions = 200
)

// completeNodes offers the node IDs of the pool that are in use, with their state and
// task. If anything fails, it offers nothing and prints nothing.
func (g *globals) completeNodes() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 || g.check() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
		defer cancel()
		store, err := g.store(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []cobra.Completion
		now := time.Now()
		for l, err := range leasepool.Open(store, g.pool).Leases(ctx) {
			if err != nil || len(found) == mostCompletions {
				break
			}
			if id := fmt.Sprint(l.NodeID); l.Holder != "" && strings.HasPrefix(id, begun) {
				found = append(found, cobra.CompletionWithDesc(id, text.Sprintf("%s, %s", l.State(now), l.Task).String()))
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completePools offers the pools of the table.
func (g *globals) completePools(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if g.checkTable() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionLimit)
	defer cancel()
	client, err := g.client(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := leasepool.Names(ctx, lease.NewDynamoDB(client, g.table))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, name := range names {
		if strings.HasPrefix(name, begun) && len(found) < mostCompletions {
			found = append(found, name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
