package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// A release and a checkout have a commit and its date; a build from the module cache has only its version.
func TestBuilds(t *testing.T) {
	end := ", " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0a1b2c3"}, {Key: "vcs.time", Value: "2026-11-22T16:00:00Z"}, {Key: "vcs.modified", Value: "false"}}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "nodelease (devel)"},
		{&debug.BuildInfo{}, "nodelease (devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "nodelease v1.2.3"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}, "nodelease v1.2.3 from commit 0a1b2c3 of 2026-11-22T16:00:00Z"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261122160000-0a1b2c3+dirty"}, Settings: commit[:1]}, "nodelease v0.0.0-20261122160000-0a1b2c3+dirty from commit 0a1b2c3"},
	} {
		if got := buildOf(c.info).text(); got != c.want+end {
			t.Errorf("got %q, want %q", got, c.want+end)
		}
	}
}
