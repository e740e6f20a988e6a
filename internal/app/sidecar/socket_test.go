//go:build unix

package sidecar_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A socket has its mode and its owner from the moment at which it appears at its path. It is
// not created through a symbolic link, and does not replace any other file.
func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listen := func() (net.Listener, error) { return sidecar.Listen("unix:"+path, false, 0o600) }

	// A process that polls constantly never sees a socket with another mode.
	stop, seen := make(chan struct{}), make(chan os.FileMode, 1)
	go func() {
		defer close(seen)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if info, err := os.Lstat(path); err == nil && info.Mode() != os.ModeSocket|0o600 {
				seen <- info.Mode()
				return
			}
		}
	}()
	for range 50 {
		l, err := listen()
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("got %v, %v, want a socket only for its user", info, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if mode, ok := <-seen; ok {
		t.Errorf("for a moment the mode was %v", mode)
	}

	elsewhere := filepath.Join(dir, "elsewhere")
	for name, make := range map[string]func() error{
		"a dangling link": func() error { return os.Symlink(elsewhere, path) },
		"a link to a file": func() error {
			return firstError(os.WriteFile(elsewhere, []byte("mine"), 0o600), os.Symlink(elsewhere, path))
		},
		"a file": func() error { return os.WriteFile(path, []byte("mine"), 0o600) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		l, err := listen()
		if err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("%s: got %v, want an error: not a socket", name, err)
		}
		if l != nil {
			_ = l.Close()
		}
		if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
			t.Errorf("%s was replaced: %v, %v", name, now, err)
		}
		if err := firstError(os.Remove(path), os.RemoveAll(elsewhere)); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v still exists", left, err)
	}
}

// Sidecars that replace the socket of a dead one at the same time do not replace each
// other's: one of them listens, and each of the others learns of it.
func TestSocketsAtOnce(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	for round := range 300 {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		var listeners [4]net.Listener
		for i := range listeners {
			group.Go(func() {
				l, err := sidecar.Listen("unix:"+path, false, 0o600)
				if err != nil && !strings.Contains(err.Error(), "another process listens there") {
					t.Errorf("round %d: got %v, want that another process listens there", round, err)
				}
				listeners[i] = l
			})
		}
		group.Wait()
		listening := 0
		for _, l := range listeners {
			if l != nil {
				listening++
				_ = l.Close()
			}
		}
		if listening != 1 {
			t.Fatalf("round %d: %d of 4 listen at one path, want one", round, listening)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v still exists", left, err)
	}
}

// A sidecar that is started while another one stops listens, or learns that the other one
// still does.
func TestSocketOfOneThatStops(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				l, err := sidecar.Listen("unix:"+filepath.Join(dir, "s"), false, 0o600)
				if err == nil {
					_ = l.Close()
				} else if !strings.Contains(err.Error(), "another process listens there") {
					t.Errorf("got %v, want that another process listens there", err)
				}
			}
		})
	}
	group.Wait()
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// The headers of every answer, including a refusal, forbid other sites to embed it, and
// browsers to guess its type.
func TestHeadersOfEveryAnswer(t *testing.T) {
	s := serve(t, snowflake.Default())
	for _, path := range []string{"/", "/lease", "/v1/id", "/id", "/healthz", "/metrics", "/nowhere"} {
		for _, site := range []string{"", "cross-site"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil)
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			res := w.Result()
			if h := res.Header; h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s from %q: %d with %v", path, site, res.StatusCode, h)
			}
			if site != "" && res.StatusCode != 403 {
				t.Errorf("%s: %d for another site, want 403", path, res.StatusCode)
			}
		}
	}
}
