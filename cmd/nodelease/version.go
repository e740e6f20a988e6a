package main

import (
	"cmp"
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
	Date     string `json:"date,omitempty"` // date of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Format   int    `json:"item_format"` // format of the items that this build reads and writes
}

// thisBuild returns how this program was built.
func thisBuild() buildInfo {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

// buildOf returns what Go recorded of a build: the version and, for a build from a
// checkout, the commit and its date. A build from the module cache
// (go install …@version) has only the version.
func buildOf(info *debug.BuildInfo) buildInfo {
	r := buildInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Format: protocol.ItemFormat}
	if info == nil {
		return r
	}
	r.Version = cmp.Or(info.Main.Version, r.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			r.Revision = s.Value
		case "vcs.time":
			r.Date = s.Value
		}
	}
	return r
}

// text describes the build on one line.
func (r buildInfo) text() string {
	from := ""
	if r.Revision != "" {
		from = " from commit " + r.Revision
		if r.Date != "" {
			from += " of " + r.Date
		}
	}
	return "nodelease " + r.Version + from + ", " + r.Go + " " + r.Platform + "\n"
}

func newVersion(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and build",
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
