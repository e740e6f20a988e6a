package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/internal/local"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// serving is the message that serve prints once it answers requests.
type serving struct {
	Listen  string `json:"listen"` // a URL, or unix: and a path
	Pool    string `json:"pool"`
	NodeID  int    `json:"node_id"`
	Version int64  `json:"version"`
	Fixed   bool   `json:"fixed,omitempty"` // the node ID is not leased
}

func newServe(g *globals) *cobra.Command {
	var t terms
	var listen, layout, mode, fixed string
	var remote, check bool
	var hosts []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a node ID and IDs to programs in any language, over HTTP on this machine",
		Long: "Lease a node ID and answer HTTP requests on this machine:\n\n" +
			"  GET  /v1/node      the node ID\n" +
			"  GET  /v1/lease     its lease, and for how much longer it can be relied on\n" +
			"  POST /v1/ids?n=N   N IDs, 1 to 10,000; Accept: application/json, text/plain or application/octet-stream\n" +
			"  POST /v1/blocks    a block of IDs, for a client that makes them in its own process\n" +
			"  GET  /livez        200 while the process should stay alive, even in an outage of DynamoDB\n" +
			"  GET  /readyz       200 while IDs can be made; ?need=lease: while the node ID can be relied on\n" +
			"  GET  /metrics      for Prometheus\n\n" +
			"There is no access control: every process that can connect can get IDs. On SIGTERM it answers open requests and then\n" +
			"releases its node ID. If the lease is lost it exits with code 7, so that a supervisor restarts it.\n\nLayouts of the IDs:\n" + describeLayouts(),
		Example: "  nodelease serve --table leases --pool orders\n" +
			"  nodelease serve --table leases --pool orders --listen unix:/run/nodelease/sidecar.sock\n" +
			"  curl -X POST 'http://127.0.0.1:7373/v1/ids?n=3'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var opts []snowflake.Option
			if layout != "" {
				l, err := parseLayout(layout)
				if err != nil {
					return err
				}
				opts = append(opts, snowflake.WithLayout(l))
			}
			m, err := strconv.ParseUint(mode, 8, 9)
			if err != nil {
				return usagef("--socket-mode %s: use permissions such as 0660", mode)
			}
			if err := sidecar.CheckAddress(listen, remote); err != nil {
				return &usageError{err}
			}
			if check {
				return checkLive(cmd.Context(), listen)
			}
			who := local.Guard{Remote: remote, Hosts: hosts}
			if fixed != "" {
				return serveFixed(cmd, g, fixed, layout, who, func() (net.Listener, error) { return sidecar.Listen(listen, remote, fs.FileMode(m)) }) //nolint:gosec // it was parsed as 32 bits
			}
			cfg, err := t.config(cmd.Context(), g)
			if err != nil {
				return err
			}
			// Listening comes before the claim of a node ID, so that errors are reported
			// at once.
			listener, err := sidecar.Listen(listen, remote, fs.FileMode(m))
			if err != nil {
				return err
			}
			return runServe(cmd, g, cfg, opts, listener, who)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:7373", "`address` on this machine, host:port or unix:path; port 0 chooses a free one")
	f.BoolVar(&remote, "allow-remote", false, "allow a --listen address that other machines can reach")
	f.StringSliceVar(&hosts, "allow-host", nil, "with --allow-remote: a host `name` with a dot that clients use (not needed for IP addresses and names without a dot)")
	f.BoolVar(&check, "healthcheck", false, "call the live check of the sidecar on --listen, and exit with code 0 or 1; for health checks of containers")
	f.StringVar(&mode, "socket-mode", "0660", "`permissions` of a Unix socket's file, which decide who can connect")
	f.StringVar(&layout, "layout", "", "`layout` of the IDs: a name or T/N/S, see above (default: the pool's; if it has none yet, default)")
	t.register(f)
	registerFixed(cmd, &fixed)
	complete(cmd, "layout", leasepool.LayoutNames()...)
	return cmd
}

// runServe leases a node ID and answers until a signal comes or the lease is lost.
func runServe(cmd *cobra.Command, g *globals, cfg lease.Config, opts []snowflake.Option, listener net.Listener, who local.Guard) error {
	defer listener.Close()
	metrics, err := sidecar.NewMetrics()
	if err != nil {
		return err
	}
	log := newLog(cmd.ErrOrStderr(), slog.LevelInfo)
	slog.SetDefault(slog.New(log))
	cfg.Logger = slog.Default()
	cfg.OnEvent = func(e lease.Event) { log.heard(e.Kind); metrics.Event(e) }
	agent, err := lease.Start(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	g.answers.ready()
	if err := metrics.Observe(agent); err != nil {
		return errors.Join(err, agent.Close())
	}
	return answer(cmd, g, agent, opts, metrics, listener, who)
}

// serveFixed answers requests with a node ID that is not leased.
func serveFixed(cmd *cobra.Command, g *globals, value, layout string, who local.Guard, listen func() (net.Listener, error)) error {
	node, err := fixedNode(cmd, g, value, layout, newLog(cmd.ErrOrStderr(), slog.LevelInfo))
	if err != nil {
		return err
	}
	listener, err := listen()
	if err != nil {
		return errors.Join(err, node.Close())
	}
	defer listener.Close()
	metrics, err := sidecar.NewMetrics()
	if err != nil {
		return errors.Join(err, node.Close())
	}
	return answer(cmd, g, node, nil, metrics, listener, who)
}

// answer serves requests until a signal comes or the node ID is lost, and closes node.
func answer(cmd *cobra.Command, g *globals, node lease.Provider, opts []snowflake.Option, metrics *sidecar.Metrics, listener net.Listener, who local.Guard) error {
	ids, err := snowflake.New(node, opts...)
	if err != nil {
		return errors.Join(err, node.Close())
	}
	l, err := reliable(cmd.Context(), node)
	if err != nil {
		return errors.Join(err, node.Close())
	}
	said := serving{Listen: urlOf(listener.Addr()), Pool: l.Pool, NodeID: l.NodeID, Version: l.Version, Fixed: !l.Fenced()}
	of := "of pool " + said.Pool
	if said.Fixed {
		of = "(fixed: no lease, no fencing token)"
	}
	if g.json {
		err = writeJSON(cmd.OutOrStdout(), said)
	} else {
		err = say(cmd.OutOrStdout(), text.Sprintf("serving node %d %s on %s; stop it with Ctrl-C\n", said.NodeID, of, said.Listen))
	}
	if err != nil {
		return errors.Join(err, node.Close())
	}
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-node.Done():
			cancel(node.Err())
		case <-ctx.Done():
		}
	}()
	err = sidecar.Serve(ctx, listener, sidecar.HandlerFor(who, node, ids, metrics))
	if lost := node.Err(); lost != nil {
		err = errors.Join(lost, err)
	}
	return errors.Join(err, node.Close()) // last, when no request is being answered any more
}

// reliable returns the lease once it may be relied on. An outage that began after the
// claim only suspends the lease, as a later outage would; it is not an error.
func reliable(ctx context.Context, node lease.Provider) (lease.Lease, error) {
	for {
		l, err := node.Lease()
		if !errors.Is(err, lease.ErrSuspended) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return l, errors.Join(err, context.Cause(ctx))
		case <-node.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// urlOf returns the address of the sidecar in the form that clients take.
func urlOf(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return "http://" + a.String()
}

// parseLayout reads the value of a --layout flag.
func parseLayout(text string) (snowflake.Layout, error) {
	l, err := leasepool.ParseLayout(text)
	if err != nil {
		return l, usagef("--%w", err)
	}
	return l, nil
}
