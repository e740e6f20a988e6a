package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/ui"
	"github.com/nodelease/nodelease/internal/text"
)

// served is the result of ui.
type served struct {
	URL string `json:"url"`
}

func newUI(g *globals) *cobra.Command {
	var listen string
	var every time.Duration
	var open bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Look at a pool in the browser: who holds what, live",
		Long: "Serve a page, on this machine alone, that shows a pool: every number by its state, who holds what since when, whose\n" +
			"lease runs low, and how full the pool is and was. It changes nothing. The pool is read once an interval while\n" +
			"a page is open, about 20 read units a group of 256 numbers in use, and not at all otherwise.",
		Example: "  nodelease ui --table nodelease --pool orders\n  nodelease ui --listen 127.0.0.1:8080 --every 10s",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usagef("--every %v: use 100ms or more", every)
			}
			l, err := ui.Listen(listen)
			if taken := new(os.SyscallError); errors.As(err, &taken) {
				return err // the flag is right: the port is another program's
			}
			if err != nil {
				return &usageError{err}
			}
			defer l.Close()
			store, err := g.store(cmd.Context())
			if err != nil {
				return err
			}
			// Errors that waiting cannot fix are reported at once; the page survives the rest.
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
				if err := browse(url); err != nil {
					_ = say(cmd.ErrOrStderr(), text.Sprintf("no browser could be started: %v\n", err))
				}
			}
			return ui.New(ui.Options{Source: store, Pool: g.pool, Title: g.table, Command: g.again, Every: every}).Serve(cmd.Context(), l)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "loopback `address`; port 0 takes a free one")
	f.DurationVar(&every, "every", 2*time.Second, "how often the pool is read while a page is open")
	f.BoolVar(&open, "open", false, "open it in the browser")
	return cmd
}

// browse shows a URL in the browser of whoever sits here.
func browse(url string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", url).Run()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", url).Run()
	}
	return exec.Command("xdg-open", url).Run()
}
