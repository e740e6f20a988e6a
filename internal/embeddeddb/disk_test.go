package embeddeddb

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A fullDisk has room for only a given number of further bytes.
type fullDisk struct {
	disk
	room       int
	noTruncate bool // truncating also fails when the disk is full, as on some file systems
}

func newFullDisk(room int) *fullDisk {
	d := &fullDisk{disk: realDisk, room: room}
	d.write = func(f *os.File, b []byte) (int, error) {
		n, err := f.Write(b[:min(len(b), d.room)])
		d.room -= n
		if err == nil && n < len(b) {
			err = syscall.ENOSPC
		}
		return n, err
	}
	d.truncate = func(f *os.File, size int64) error {
		if d.noTruncate && d.room == 0 {
			return syscall.ENOSPC
		}
		return f.Truncate(size)
	}
	return d
}

// seeded returns a data file with a table and an item whose counter was incremented twice.
func seeded(t *testing.T) (data, content string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	s := open(t, data)
	must(t, s, "CreateTable", createLeases)
	count(t, s, 1)
	count(t, s, 1)
	content = contents(t, s)
	s.Close()
	return data, content
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// After a kill, the server finds the same in a copy of the file as in the file itself.
func afterKill(t *testing.T, data string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(copied, []byte(read(t, data)), 0o600); err != nil {
		t.Fatal(err)
	}
	return contents(t, open(t, copied))
}

const countTwo = `{"TableName":"leases","Key":{"pool_group":{"S":"p#2"},"node_id":{"N":"2"}},"UpdateExpression":"SET n = :1","ExpressionAttributeValues":{":1":{"N":"1"}}}`

// If the disk fills up at any byte of a write, the write is refused and not kept, no other write is
// lost, and writes succeed again once there is room.
func TestDiskFullWhileRunning(t *testing.T) {
	for _, noTruncate := range []bool{false, true} {
		for room, refused := 0, true; refused; room += 3 {
			data, _ := seeded(t)
			d := newFullDisk(1 << 20)
			s, err := New(Options{Data: data, disk: &d.disk})
			if err != nil {
				t.Fatal(err)
			}
			before := contents(t, s)
			d.room, d.noTruncate = room, noTruncate
			w := call(s, "UpdateItem", countTwo)
			if refused = w.Code != http.StatusOK; !refused {
				s.Close()
				continue
			}
			if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "no space left on device: make room") {
				t.Errorf("room for %d bytes: %d %s", room, w.Code, w.Body)
			}
			if got := contents(t, s); got != before {
				t.Errorf("room for %d bytes: a refused write is stored: %s", room, got)
			}
			if got := afterKill(t, data); got != before {
				t.Errorf("room for %d bytes, and a kill: got %s, want %s", room, got, before)
			}
			d.room = 1 << 20
			count(t, s, 1)
			after := contents(t, s)
			s.Close()
			if got := contents(t, open(t, data)); got != after {
				t.Errorf("room for %d bytes, and then more: got %s, want %s", room, got, after)
			}
		}
	}
}

// A restart on a disk that is full at any byte, or fails in another way, leaves the data
// file unchanged.
func TestDiskFullAtRestart(t *testing.T) {
	data, want := seeded(t)
	whole := read(t, data)
	try := func(name string, d *disk) (started bool) {
		t.Helper()
		s, err := New(Options{Data: data, disk: d})
		if err == nil {
			s.Close()
			return true
		}
		if !strings.Contains(err.Error(), "nothing is lost; restart the server") {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, data); got != whole {
			t.Fatalf("%s: the file is now %q, want %q", name, got, whole)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(data), "*")); err != nil || len(left) != 1 {
			t.Errorf("%s: %q, %v: left behind", name, left, err)
		}
		return false
	}
	failing := errors.New("no")
	noSync, noRename := realDisk, realDisk
	noSync.sync = func(*os.File) error { return failing }
	noRename.rename = func(string, string) error { return failing }
	if try("no sync", &noSync) || try("no rename", &noRename) {
		t.Error("started with a file that may not be on the disk")
	}
	for room := range len(whole) {
		if try(fmt.Sprint("room for ", room), &newFullDisk(room).disk) && room < len(whole)-200 {
			t.Fatalf("started with room for %d bytes", room)
		}
	}
	if got := contents(t, open(t, data)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

const (
	envKill   = "NODELEASE_TEST_KILL_DATA"
	envKillAt = "NODELEASE_TEST_KILL_AT"
)

// killAtStep starts a server that increments a counter, and kills its own process before a step on the
// disk, or in the middle of a step.
func killAtStep(data string) {
	at, _ := strconv.Atoi(os.Getenv(envKillAt))
	step := func() {
		if at--; at < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	d := disk{
		write: func(f *os.File, b []byte) (int, error) {
			step()
			if _, err := f.Write(b[:len(b)/2]); err != nil {
				return 0, err
			}
			step()
			_, err := f.Write(b[len(b)/2:])
			return len(b), err
		},
		truncate: func(f *os.File, n int64) error { step(); return f.Truncate(n) },
		sync:     func(f *os.File) error { step(); return f.Sync() },
		rename:   func(from, to string) error { step(); err := os.Rename(from, to); step(); return err },
	}
	s, err := New(Options{Data: data, disk: &d})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for range 3 {
		w := call(s, "UpdateItem", `{`+leaseKey(1)+`,"UpdateExpression":"SET n = n + :1","ExpressionAttributeValues":{":1":{"N":"1"}}}`)
		fmt.Println(w.Code)
	}
	os.Exit(0)
}

// A kill before, in the middle of or after any step on the disk loses nothing that was acknowledged.
func TestKilledAtEveryStep(t *testing.T) {
	for at := 0; ; at++ {
		data, _ := seeded(t)
		server := exec.Command(os.Args[0])
		server.Env = append(os.Environ(), envKill+"="+data, envKillAt+"="+strconv.Itoa(at))
		out, err := server.Output()
		told := 2 + strings.Count(string(out), "200\n")
		s := open(t, data)
		if found := counted(s.tables["leases"].rows[0]); found < told || found > told+1 {
			t.Errorf("killed at step %d: %d writes acknowledged, found %d", at, told, found)
		}
		if left, _ := filepath.Glob(data + "?*"); len(left) > 0 {
			t.Errorf("killed at step %d: %q left after a restart", at, left)
		}
		if err == nil {
			if at < 8 || told != 5 {
				t.Errorf("ended after %d steps with %d writes", at, told)
			}
			return
		}
	}
}

// Any changed byte of a journal is noticed.
func TestEveryByteFlipped(t *testing.T) {
	data, _ := seeded(t)
	whole := read(t, data)
	for i := range whole {
		for bit := range 8 {
			flipped := []byte(whole)
			flipped[i] ^= 1 << bit
			if bit > 0 || i%8 > 0 { // without a file, since files are slow
				if err := (&Server{tables: map[string]*table{}}).replay(bytes.NewReader(flipped), data); err == nil {
					t.Fatalf("byte %d, bit %d: replayed %q", i, bit, flipped)
				}
				continue
			}
			if err := os.WriteFile(data, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := New(Options{Data: data})
			if err == nil {
				s.Close()
				t.Fatalf("byte %d, bit %d: replayed %q", i, bit, flipped)
			}
			line := fmt.Sprintf("data:%d: the data file is damaged: restore it", 1+strings.Count(whole[:i+1], "\n"))
			if i < len(journalHeader) {
				line = "it is not a data file"
			}
			if !strings.Contains(err.Error(), line) {
				t.Errorf("byte %d, bit %d: %v, want %q", i, bit, err, line)
			}
			if got := read(t, data); got != string(flipped) {
				t.Fatalf("byte %d, bit %d: the file is now %q", i, bit, got)
			}
		}
	}
}

// line returns an entry's line with the right checksums.
func line(body string) string {
	return header(uint32(len(body)), sum(body)) + body
}

func TestEntriesRefused(t *testing.T) {
	made := `{"Table":"leases","Create":` + strings.TrimSuffix(createLeases, "}") + `,"Created":1,"ID":"i"}}`
	for _, body := range []string{
		`{}`, `7`, `{"Table":"leases"}`, `{"Table":"leases","Drop":false}`, made,
		`{"Table":"leases","Item":{}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"}}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"S":"1"}}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":""},"node_id":{"N":"1"}}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1"},"x":{"N":"one"}}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1"},"x":{}}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1"},"x":{"S":"1","N":"1"}}}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1"}},"Drop":true}`,
		`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1"}},"More":true}`,
		`{"Table":"others","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1"}}}`,
		`{"Table":"others","Drop":true}`, `{"Table":"others","Create":{}}`, `{"Table":"others","Create":null}`,
		strings.Replace(made, `"Table":"leases"`, `"Table":"others"`, 1),
	} {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(data, []byte(journalHeader+line(made)+line(body)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Data: data})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "data:3: the data file is damaged") {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

// FuzzReplay checks that any file is either refused, or has content that can be written and read again.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"Table":"leases","Create":` + createLeases + `}`))
	f.Add([]byte(`{"Table":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1e2"}}}`))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		made := `{"Table":"leases","Create":` + createLeases + `}`
		for _, content := range []string{journalHeader + line(made) + line(string(body)), journalHeader + line(made) + string(body)} {
			s := &Server{tables: map[string]*table{}}
			if s.replay(strings.NewReader(content), "data") != nil {
				continue
			}
			want := contents(t, s)
			var b bytes.Buffer
			b.WriteString(journalHeader)
			for name, table := range s.tables {
				b.Write(entry{Table: name, Create: &table.madeTable}.line())
				for _, row := range table.rows {
					b.Write(entry{Table: name, Item: row}.line())
				}
			}
			again := &Server{tables: map[string]*table{}}
			if err := again.replay(&b, "data"); err != nil || contents(t, again) != want {
				t.Errorf("got %s, %v, want %s", contents(t, again), err, want)
			}
		}
	})
}
