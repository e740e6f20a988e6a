package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
)

// buildInfo is the result of version.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Format   int    `json:"item_format"` // of the items that this build reads and writes
}

// thisBuild is this build.
func thisBuild() buildInfo {
	r := buildInfo{"(devel)", "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, protocol.ItemFormat}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Revision = s.Value
			}
		}
	}
	return r
}

// text is the build on one line.
func (r buildInfo) text() string {
	from := ""
	if r.Revision != "" {
		from = " from " + r.Revision
	}
	return "nodelease " + r.Version + from + ", " + r.Go + " " + r.Platform + "\n"
}

func newVersion(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Example: "  nodelease version\n  nodelease version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.json {
				return writeJSON(cmd.OutOrStdout(), thisBuild())
			}
			return say(cmd.OutOrStdout(), text.Trusted(thisBuild().text()))
		},
	}
}
