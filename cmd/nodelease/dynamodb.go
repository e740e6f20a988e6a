package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/demo"
	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/text"
)

// newDynamoDB serves the embedded DynamoDB, for the demo and for trying the
// other commands.
func newDynamoDB(g *globals) *cobra.Command {
	var listen, data string
	var attached bool
	cmd := &cobra.Command{
		Use:   demo.ServerCommand,
		Short: "Serve a small DynamoDB on this machine, for development",
		Long: "Serve the embedded DynamoDB on this machine, for development and for trying out the other commands: in memory, or kept in a\n" +
			"file with --data. --table creates a table at the start. The server has no access control, listens only on the loopback\n" +
			"interface, and implements the part of DynamoDB that Nodelease uses. The other commands find it through --endpoint or\n" +
			"AWS_ENDPOINT_URL_DYNAMODB, and need no Region and no credentials for it.",
		Example: "  nodelease dynamodb --table leases --data leases.journal\n" +
			"  AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8000 nodelease seed --table leases --pool orders --size 8",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if host, _, err := net.SplitHostPort(listen); err != nil || !loopback(host) {
				return usagef("--listen %s: use 127.0.0.1:8000 or another loopback address (port 0 chooses a free one); the server has no access control", listen)
			}
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			if attached {
				go func() {
					_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // the end of stdin is the signal to stop
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
					failed = say(cmd.OutOrStdout(), text.Sprintf("a small DynamoDB for development is on %s, only for programs on this machine and without access control; stop it with Ctrl-C\n", endpoint))
				}
				g.answers.ready()
			})
			return errors.Join(failed, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8000", "loopback `address`; port 0 chooses a free one")
	f.StringVar(&data, "data", "", "`file` that keeps the tables from one run to the next (default: in memory only)")
	f.BoolVar(&attached, "attached", false, "exit when stdin ends")
	f.Lookup("attached").Hidden = true // only the demo uses it
	completeFunc(cmd, "data", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault
	})
	return cmd
}

// loopback reports whether a host can only be this machine.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
