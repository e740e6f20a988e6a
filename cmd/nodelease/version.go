package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
)

func newVersion(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Example: "  nodelease version\n  nodelease version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
				Format   int    `json:"item_format"` // of the items that this build reads and writes
			}{"(devel)", "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, protocol.ItemFormat}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), v)
			}
			built := ""
			if v.Revision != "" {
				built = " from " + v.Revision
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "nodelease %s%s, %s %s\n", v.Version, built, v.Go, v.Platform)
			return err
		},
	}
}
