//go:build unix && !solaris && !aix

package embeddeddb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// lockFile takes a lock that ends with the process, however that ends.
func lockFile(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%s is locked: another process uses this data file; stop it or choose another file", path)
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
