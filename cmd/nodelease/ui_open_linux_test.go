package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The page is served while the program that shows it still runs, as a browser does that was
// not open before.
func TestUIOpensABrowserThatStays(t *testing.T) {
	t.Parallel()
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "8"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "stays")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nexec /bin/cat "+pipe+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := self(append([]string{"ui", "--open", "--json"}, flags...)...)
	cmd.Env = append(os.Environ(), "PATH="+dir)
	p := start(t, cmd)
	var s served
	if err := json.Unmarshal([]byte(p.until(t, "url")), &s); err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: 20 * time.Second}).Get(s.URL)
	if err == nil {
		err = res.Body.Close()
	}
	if err != nil {
		t.Errorf("the page does not answer while the browser runs: %v", err)
	}
	ends, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until the browser reads
	if err != nil {
		t.Fatal(err)
	}
	_ = ends.Close()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, code := p.end(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}
