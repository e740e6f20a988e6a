package embeddeddb

import (
	"context"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func sum(body string) uint32 { return crc32.Checksum([]byte(body), castagnoli) }

func try(err error) {
	if err != nil {
		panic(err)
	}
}

func refusedFile(t *testing.T, path, want string) {
	t.Helper()
	s, err := New(Options{Data: path})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", path, err, want)
	}
}

// A file has at most one server, whatever names lead to it, and a file that other users can
// change is refused.
func TestFilesRefused(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	file := func(name, content string, mode os.FileMode) string {
		try(os.WriteFile(in(name), []byte(content), 0o600))
		try(os.Chmod(in(name), mode))
		return in(name)
	}
	refusedFile(t, file("notes", "dear diary\n", 0o600), "it is not a data file")
	refusedFile(t, file("version 1", strings.Replace(journalHeader, "2", "1", 1), 0o600), "of this release")
	refusedFile(t, file("begun", journalHeader[:9], 0o600), "it is not a data file")
	refusedFile(t, in("nowhere/data"), "no such file or directory")
	refusedFile(t, dir, "is a directory")
	refusedFile(t, file("public", "", 0o666), "other users can write to it")
	if os.Geteuid() == 0 {
		foreign := file("foreign", "", 0o600)
		try(os.Chown(foreign, 1, -1))
		refusedFile(t, foreign, "it belongs to user 1, and this process runs as 0")
	} else {
		t.Log("NOT TESTED: a file of another user, which only root can create")
	}
	try(syscall.Mkfifo(in("pipe"), 0o600))
	refusedFile(t, in("pipe"), "not a regular file")
	try(os.Symlink(in("nothing"), in("astray")))
	refusedFile(t, in("astray"), "no such file or directory")
	if got := read(t, in("notes")); got != "dear diary\n" {
		t.Errorf("the notes are now %q", got)
	}

	held := open(t, in("held"))
	must(t, held, "CreateTable", createLeases)
	refusedFile(t, in("held"), "another process uses this data file")
	try(os.Symlink("held", in("link")))
	refusedFile(t, in("link"), "another process uses this data file")
	try(os.Symlink(dir, in("way")))
	refusedFile(t, in("way/held"), "another process uses this data file")
	held.Close()
	try(os.Link(in("held"), in("second")))
	refusedFile(t, in("held"), "it has 2 names (hard links)")
	try(os.Remove(in("second")))
	linked := open(t, in("link")) // through a link: the file behind it is used and stays where it is
	count(t, linked, 1)
	linked.Close()
	if target, err := os.Readlink(in("link")); err != nil || target != "held" {
		t.Errorf("the link is now %q, %v, want held", target, err)
	}
	if got := contents(t, open(t, in("held"))); !strings.Contains(got, `"n":{"N":"1"}`) {
		t.Errorf("written through the link, read without: %s", got)
	}
}

// The files that a server makes belong only to its user, and it makes none at the target of a link.
func TestFilesMade(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := t.TempDir()
	data, victim := filepath.Join(dir, "data"), filepath.Join(dir, "victim")
	try(os.WriteFile(victim, []byte("precious"), 0o644))
	try(os.WriteFile(data, nil, 0o644))
	try(os.Symlink(victim, data+".compacting"))
	s := open(t, data)
	must(t, s, "CreateTable", createLeases)
	info, err := os.Stat(data)
	try(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want readable only by its owner", info.Mode())
	}
	if got := read(t, victim); got != "precious" {
		t.Errorf("a file behind a link is now %q, want precious", got)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 2 {
		t.Errorf("got %q, %v, want data and victim", names, err)
	}
}

// A server whose path no longer leads to its file serves nothing: its writes would be lost,
// and another server may be using the path.
func TestFileTaken(t *testing.T) {
	for name, take := range map[string]func(data string){
		"removed":  func(data string) { try(os.Remove(data)) },
		"moved":    func(data string) { try(os.Rename(data, data+".old")) },
		"replaced": func(data string) { try(os.WriteFile(data+".new", nil, 0o600)); try(os.Rename(data+".new", data)) },
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			s := open(t, data)
			must(t, s, "CreateTable", createLeases)
			take(data)
			for _, operation := range []string{"DescribeTable", "DeleteTable"} {
				if w := call(s, operation, `{"TableName":"leases"}`); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "was moved or removed") {
					t.Errorf("%s: %d %s", operation, w.Code, w.Body)
				}
			}
		})
	}
}

// If the file is removed between the check and the write, the write is refused.
func TestFileTakenDuringWrite(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	d := realDisk
	s, err := New(Options{Data: data, disk: &d})
	try(err)
	defer s.Close()
	must(t, s, "CreateTable", createLeases)
	d.write = func(f *os.File, b []byte) (int, error) {
		try(os.Remove(data))
		return f.Write(b)
	}
	if w := call(s, "UpdateItem", claim); w.Code != http.StatusInternalServerError {
		t.Errorf("got %d %s, want Code InternalServerError", w.Code, w.Body)
	}
	select {
	case <-s.down:
	default:
		t.Error("the server kept running")
	}
}

func TestListenAndServeStops(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- ListenAndServe(context.Background(), "127.0.0.1:0", data, func(endpoint string) { ready <- endpoint })
	}()
	endpoint := <-ready
	try(os.Remove(data))
	r, err := http.NewRequest(http.MethodPost, endpoint, strings.NewReader(`{"TableName":"leases"}`))
	try(err)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.DescribeTable")
	w, err := http.DefaultClient.Do(r)
	try(err)
	w.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "was moved or removed") {
		t.Errorf("got %v", err)
	}
}
