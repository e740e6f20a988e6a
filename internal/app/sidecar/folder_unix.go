//go:build unix && !solaris && !aix

package sidecar

import (
	"errors"
	"os"
	"syscall"
)

// lockFolder waits for a lock on a folder, which ends with the process. If the folder cannot
// be read, it takes no lock.
func lockFolder(path string) (unlock func()) {
	folder, err := os.Open(path) //nolint:gosec // the user names the folder
	if err != nil {
		return func() {}
	}
	for errors.Is(syscall.Flock(int(folder.Fd()), syscall.LOCK_EX), syscall.EINTR) {
		continue
	}
	return func() { _ = folder.Close() }
}
