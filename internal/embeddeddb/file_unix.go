//go:build unix && !solaris && !aix

package embeddeddb

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// openLocked opens a file, never through a link, and takes a lock on it that ends with the process, however the process ends.
// It refuses a file that another user owns or may write to, or that has a second name: such a file could change unnoticed.
func openLocked(path string, flags int) (*os.File, os.FileInfo, error) {
	file, err := os.OpenFile(path, flags|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600) //nolint:gosec // the user names the file
	if err != nil {
		return nil, nil, fmt.Errorf("%w: choose a file in a directory that this user can write to", err)
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another process uses this data file: stop it, or choose another file")
	}
	info, failed := file.Stat()
	if err = errors.Join(err, failed); err == nil {
		about, _ := info.Sys().(*syscall.Stat_t)
		switch {
		case about == nil || !info.Mode().IsRegular():
			err = errors.New("it is not a regular file: choose another")
		case int(about.Uid) != os.Geteuid():
			err = fmt.Errorf("it belongs to user %d, and this process runs as %d: choose a file of your own", about.Uid, os.Geteuid())
		case info.Mode().Perm()&0o022 != 0:
			err = fmt.Errorf("other users can write to it (%v): if you trust its contents, run chmod go-w", info.Mode())
		case about.Nlink > 1:
			err = fmt.Errorf("it has %d names (hard links), and a restart would replace only this one: remove the others", about.Nlink)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}
