package supervise

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A signal to all descendants also reaches those whose parent dies of it first.
func TestSignalReachesOrphans(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		near, far, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		script := strings.Repeat("sleep 300 & ", 20) + "echo started; wait"
		if _, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script}, &os.ProcAttr{Files: []*os.File{nil, far, nil}}); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_, _ = near.Close(), far.Close()
		signalBelow(os.Getpid(), syscall.SIGTERM) // as stop does, once
		end := time.AfterFunc(10*time.Second, func() { signalBelow(os.Getpid(), syscall.SIGKILL) })
		for {
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(-1, &status, 0, nil); errors.Is(err, syscall.EINTR) {
				continue
			} else if err != nil { // none is left
				break
			}
			if got := status.Signal(); got != syscall.SIGTERM {
				t.Errorf("a process ended with the signal %v, want %v", got, syscall.SIGTERM)
			}
		}
		end.Stop()
		if t.Failed() {
			return
		}
	}
}
