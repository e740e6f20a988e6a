package main

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/ui"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/discovery"
)

// served is the result of ui.
type served struct {
	URL string `json:"url"`
}

func newUI(g *globals) *cobra.Command {
	var listen string
	var every, idle time.Duration
	var open bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show a pool live in the browser: who holds which node ID",
		Long: "Serve a page, only on this machine, that shows a pool: every node ID by its state, its holder and since when, leases that\n" +
			"run low, how full the pool is and was, the registered services and the members of the cluster. The page\n" +
			"cannot change anything. The pool is read every 2s while a page is open, about 20 read units for each group of 256 node IDs in\n" +
			"use, and every 30s otherwise, so that the page has a history when it is opened.",
		Example: "  nodelease ui --table nodelease --pool orders\n  nodelease ui --listen 127.0.0.1:8080 --every 10s",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usagef("--every %v: use 100ms or more", every)
			}
			if idle != 0 && idle < every {
				return usagef("--idle %v: use --every (%v) or more, or 0 to read nothing while no page is open", idle, every)
			}
			l, err := ui.Listen(listen)
			if taken := new(os.SyscallError); errors.As(err, &taken) {
				return err // not a usage error: another program has the port
			}
			if err != nil {
				return &usageError{err}
			}
			defer l.Close()
			store, err := g.store(cmd.Context())
			if err != nil {
				return err
			}
			// An error that waiting cannot fix is reported at once; the page shows all
			// other errors.
			if _, err := store.PoolItem(cmd.Context(), g.pool); err != nil {
				return err
			}
			url := "http://" + l.Addr().String() + "/"
			if g.json {
				if err := writeJSON(cmd.OutOrStdout(), served{url}); err != nil {
					return err
				}
			} else {
				if err := say(cmd.OutOrStdout(), text.Sprintf("pool %s of table %s is on %s; stop it with Ctrl-C\n", g.pool, g.table, url)); err != nil {
					return err
				}
			}
			g.answers.ready()
			if open {
				// Invariant (liveness): the page is served while the browser runs. Some programs that open a
				// browser end only together with it.
				go func() {
					if err := browse(url); err != nil {
						_ = say(cmd.ErrOrStderr(), text.Sprintf("could not start a browser: %v\n", err))
					}
				}()
			}
			// Errors of discovery are shown on the page, so nothing is logged.
			directory, err := discovery.New(discovery.Config{Pool: g.pool, Store: discovery.NewTable(store.Table()), Logger: slog.New(slog.DiscardHandler), Alone: true})
			if err != nil {
				return err
			}
			page := ui.New(ui.Options{Source: store, Pool: g.pool, Title: g.table, Command: g.again, Every: every, Idle: idle, Directory: directory})
			return page.Serve(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "loopback `address`; port 0 chooses a free one")
	f.DurationVar(&every, "every", 2*time.Second, "how often the pool is read while a page is open")
	f.DurationVar(&idle, "idle", 30*time.Second, "how often it is read while no page is open, for the history (0: never)")
	f.BoolVar(&open, "open", false, "open the page in the browser")
	return cmd
}

// browse shows a URL in the local user's browser.
func browse(url string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", url).Run() //nolint:gosec // the URL is our own
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", url).Run() //nolint:gosec // the URL is our own
	}
	return exec.Command("xdg-open", url).Run() //nolint:gosec // the URL is our own
}
