//go:build unix && !solaris && !aix

package sidecar_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
)

// Another program, which may be that of another user, has a lock on the folder. A sidecar that
// finds the socket of a dead one there reports that, and does not wait for the lock to end.
func TestSocketInALockedFolder(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := sidecar.Listen("unix:"+path, false, 0o600)
		if err == nil {
			_ = l.Close()
		}
		got <- err
	}()
	select {
	case err = <-got:
	case <-time.After(10 * time.Second):
		t.Error("the sidecar waits for the lock")
	}
	_ = folder.Close()
	if err == nil || !strings.Contains(err.Error(), "has a lock") {
		t.Errorf("got %v, want that another process has a lock", err)
	}
	l, err := sidecar.Listen("unix:"+path, false, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
