// Package sources names the files that a test depends on and does not open itself.
//
// The go command keeps a test's pass until one of its packages changes, or a file that it has opened. Files that are read
// by the programs it starts, such as go build or node, are not among these.
package sources

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// notOurs are folders of tools: their content follows from files that are sources.
var notOurs = []string{".git", ".cache", "node_modules", "dist", "cdk.out"}

// Of makes the test run again when a file below one of the folders has changed. It opens each folder, by which the go
// command knows the size and the time of each file in it.
func Of(tb testing.TB, folders ...string) {
	tb.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != folder && slices.Contains(notOurs, d.Name()) {
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
}
