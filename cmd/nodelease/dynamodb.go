package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/embeddeddb"
)

// newDynamoDB serves the embedded DynamoDB, for the demo and for trying the
// other commands. It is hidden, since it is for nothing else.
func newDynamoDB(g *globals) *cobra.Command {
	var listen, data string
	var attached bool
	cmd := &cobra.Command{
		Use:     demo.ServerCommand,
		Short:   "Serve a small DynamoDB on this machine, for trying things",
		Example: "  nodelease dynamodb --table nodelease --listen 127.0.0.1:8000 --data leases.journal",
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			if attached {
				go func() {
					_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // its end is the signal
					cancel(nil)
				}()
			}
			var failed error
			err := embeddeddb.ListenAndServe(ctx, listen, data, func(endpoint string) {
				if g.table != "" {
					if failed = demo.CreateTable(ctx, endpoint, g.table); failed != nil {
						cancel(failed)
						return
					}
				}
				if g.json {
					failed = writeJSON(cmd.OutOrStdout(), demo.Serving{Endpoint: endpoint})
				} else {
					fmt.Fprintf(cmd.OutOrStdout(), "a small DynamoDB for trials, with no access control, is on %s; stop it with Ctrl-C\n", endpoint)
				}
			})
			return errors.Join(failed, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8000", "loopback `address`; port 0 takes a free one")
	f.StringVar(&data, "data", "", "`file` that keeps the tables from one run to the next (none: in memory only)")
	f.BoolVar(&attached, "attached", false, "end when stdin does")
	return cmd
}
