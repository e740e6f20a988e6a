//go:build unix && !solaris && !aix

package sidecar

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// folderWait is how long lockFolder waits. A sidecar holds its lock for some milliseconds.
const folderWait = 2 * time.Second

// lockFolder waits for a lock on a folder, which ends with the process. If the folder cannot
// be read, or its file system has no locks, it takes no lock.
//
// Invariant (liveness): a foreign lock, which every user who can read the folder may take, does
// not hang a start: ok is false.
func lockFolder(path string) (unlock func(), ok bool) {
	folder, err := os.Open(path) //nolint:gosec // the user names the folder
	if err != nil {
		return func() {}, true
	}
	unlock = func() { _ = folder.Close() }
	for end := time.Now().Add(folderWait); ; {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return unlock, true
		case time.Now().After(end):
			unlock()
			return nil, false
		default:
			time.Sleep(time.Millisecond)
		}
	}
}
