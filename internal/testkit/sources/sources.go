// Package sources declares files that a test depends on but does not open itself.
//
// The go command caches the result of a test until one of the test's packages changes, or a
// file that the test has opened. It does not notice files that are read by programs that
// the test starts, such as go build or node.
package sources

import (
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// notOurs are folders that tools write, and whose content follows from source files.
var notOurs = []string{".git", ".cache", "node_modules", "dist", "cdk.out"}

// Of makes the go command run the test again when a file below one of the folders has changed. It opens each folder, for
// which the go command then records the size and the time of each file in it.
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
