//go:build linux

package conformance

import (
	"bufio"
	"encoding/binary"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// shim is a library that a process loads before libc. It moves the wall clock by the seconds
// in the first eight bytes of a file.
const shim = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long none, *by = &none;

__attribute__((constructor)) static void begin(void) {
	void *page = mmap(NULL, 8, PROT_READ, MAP_SHARED, open(getenv("NODELEASE_CLOCK"), O_RDONLY), 0);
	if (page != MAP_FAILED) by = page;
}

int clock_gettime(clockid_t id, struct timespec *at) {
	static int (*real)(clockid_t, struct timespec *);
	if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int failed = real(id, at);
	if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *by;
	return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
	struct timespec now;
	int failed = clock_gettime(CLOCK_REALTIME, &now);
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return failed;
}

time_t time(time_t *at) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (at) *at = now.tv_sec;
	return now.tv_sec;
}
`

// A call that waits for a sidecar that does not answer ends with its time-out, also if the
// wall clock is set back meanwhile.
func TestWallClockIsSetBackDuringACall(t *testing.T) {
	all, folder := languages(t), t.TempDir()
	library, source := filepath.Join(folder, "clock.so"), filepath.Join(folder, "clock.c")
	if err := os.WriteFile(source, []byte(shim), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, out)
	}
	for _, language := range all {
		t.Run(language, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			file, err := os.CreateTemp(t.TempDir(), "clock")
			if err == nil {
				_, err = file.Write(make([]byte, 8))
			}
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			t.Setenv("NODELEASE_CLOCK", file.Name())
			t.Setenv("LD_PRELOAD", library)
			a := startAdapter(t, language)
			var l net.ListenConfig
			silent, err := l.Listen(t.Context(), "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = silent.Close() })
			for _, s := range []step{{Op: "new", Sidecar: "unix:" + path}, {Op: "timeout", MS: 1000}} {
				if got, err := a.do(s); err != nil || got.Error != "" {
					t.Fatal(got, err)
				}
			}
			ended := make(chan string, 1)
			go func() {
				got, err := a.do(step{Op: "next"})
				if err != nil {
					got.Error = err.Error()
				}
				ended <- got.Error
			}()
			c, err := silent.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				t.Fatal(err)
			}
			hour := int64(time.Hour / time.Second)
			if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(-hour)), 0); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-ended:
				if got != "unavailable" {
					t.Errorf("got the error %q, want unavailable", got)
				}
			case <-time.After(20 * time.Second):
				t.Error("the call with a time-out of 1 s still waits after 20 s")
			}
		})
	}
}
