package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// listenUnix listens on a Unix socket. If there is a file at the path, listenUnix replaces
// that file only if it is a socket whose server is dead.
//
// The socket is created in a separate folder that no other user may enter, gets its mode
// there, and is then linked to its path, unless a file is there. So users whom the mode
// does not admit cannot connect at any moment, and no symbolic link is followed.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	failed := func(err error) error {
		return fmt.Errorf("--listen unix:%s: %w: use a path of up to 80 bytes in a directory that this user can write to", path, err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".n") // 0700
	if err != nil {
		return nil, failed(err)
	}
	defer os.RemoveAll(folder)
	made := filepath.Join(folder, "s")
	l, err := net.Listen("unix", made)
	if err != nil {
		return nil, failed(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &socket{Listener: l, path: path}
	if err = os.Chmod(made, mode); err == nil {
		s.made, err = os.Lstat(made)
	}
	if err != nil {
		return nil, errors.Join(failed(err), l.Close())
	}
	err = os.Link(made, path)
	if errors.Is(err, fs.ErrExist) {
		// Invariant: no socket of a live server is removed. Otherwise another process could replace
		// the dead one after removeDead has found it dead, and that process's socket would go.
		unlock, ok := lockFolder(filepath.Dir(path))
		if !ok {
			return nil, errors.Join(fmt.Errorf("--listen unix:%s: a file is there, and another process has a lock (flock) on the folder %s: end that process, or use another folder", path, filepath.Dir(path)), l.Close())
		}
		defer unlock()
		for errors.Is(err, fs.ErrExist) { // again if another process was faster
			if err := removeDead(path); err != nil {
				return nil, errors.Join(err, l.Close())
			}
			err = os.Link(made, path)
		}
	}
	if err != nil {
		return nil, errors.Join(failed(err), l.Close())
	}
	return s, nil
}

// removeDead removes a socket on which nothing listens.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("--listen unix:%s: a file that is not a socket is in the way: remove it, or use another path", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return fmt.Errorf("--listen unix:%s: another process listens there: stop it, or use another path", path)
	} else if errors.Is(err, fs.ErrNotExist) { // its process has just stopped
		return nil
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// socket is a listener that was created at a path other than its final path.
type socket struct {
	net.Listener
	path string
	made os.FileInfo
	once sync.Once
}

// Addr returns where clients connect.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close closes the listener, and removes the file at its path if that is still this socket.
func (s *socket) Close() error {
	s.once.Do(func() {
		if at, err := os.Lstat(s.path); err == nil && os.SameFile(at, s.made) {
			_ = os.Remove(s.path)
		}
	})
	return s.Listener.Close()
}
