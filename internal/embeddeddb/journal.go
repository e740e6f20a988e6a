package embeddeddb

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// An entry is a change of the database. All changes are made by apply, so that replaying a journal restores the tables.
type entry struct {
	Table  string
	Create *madeTable `json:",omitempty"`
	Drop   bool       `json:",omitempty"`
	Item   Item       `json:",omitempty"`
}

// apply makes a change, or refuses a change that no server would have written.
func (s *Server) apply(e entry) {
	t := s.tables[e.Table]
	switch {
	case e.Create != nil && t == nil && !e.Drop && e.Item == nil && *e.Create.TableName == e.Table:
		s.tables[e.Table] = &table{*e.Create, nil}
	case e.Drop && t != nil && e.Create == nil && e.Item == nil:
		delete(s.tables, e.Table)
	case e.Item != nil && t != nil && e.Create == nil && !e.Drop:
		t.key(e.Item)
		t.put(e.Item)
	default:
		refuse("not a change that fits table %q at that point", e.Table)
	}
}

// commit makes a change, after writing it to the journal: no client can see it, or gets an answer, before that.
func (s *Server) commit(e entry) {
	if s.journal != nil {
		if err := s.journal.append(e); err != nil {
			s.mustServe()
			refuseFor(err)
		}
	}
	s.apply(e)
}

type disk struct {
	write    func(*os.File, []byte) (int, error)
	truncate func(*os.File, int64) error
	sync     func(*os.File) error
	rename   func(from, to string) error
}

var realDisk = disk{(*os.File).Write, (*os.File).Truncate, (*os.File).Sync, os.Rename}

// A journal is a file with a header line, and a line for each entry. The line of an entry
// has the length and the checksum of its JSON, the checksum of these two, and the JSON.
// Each line begins with the newline. So if the last byte of an entry could not be written,
// the entry was refused, and is never complete in the file.
//
// The lock is on the file and not on its name, since several names may lead to one file.
type journal struct {
	*disk
	path  string // as the user named it
	file  *os.File
	info  os.FileInfo
	size  int64 // of the acknowledged entries
	dirty bool  // the file may be longer than that
}

const (
	journalHeader = "nodelease embedded DynamoDB, journal version 2"
	maxEntry      = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func header(length, sum uint32) string {
	both := fmt.Sprintf("%08x %08x", length, sum)
	return fmt.Sprintf("\n%s %08x ", both, crc32.Checksum([]byte(both), castagnoli))
}

func (e entry) line() []byte {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot happen with this package's own types
	}
	return append([]byte(header(uint32(len(body)), crc32.Checksum(body, castagnoli))), body...) //nolint:gosec // a record is shorter than 4 GB
}

// append writes an entry, or leaves the file unchanged. A partial entry of a failed write is cut off, at the latest before
// the next write: a refused write must not be there after a restart.
func (j *journal) append(e entry) (err error) {
	if j.dirty {
		err = j.cut()
	}
	if line := e.line(); err == nil {
		if _, err = j.write(j.file, line); err == nil {
			err = j.lost()
		}
		if err == nil {
			j.size += int64(len(line))
			return nil
		}
		_ = j.cut() // or before the next entry
	}
	return fmt.Errorf("data file %q cannot be written: %w: make room for it, then try again", j.path, err)
}

func (j *journal) cut() error {
	err := j.truncate(j.file, j.size)
	j.dirty = err != nil
	return err
}

// lost returns an error once the path no longer leads to the journal's file.
func (j *journal) lost() error {
	info, err := os.Stat(j.path) //nolint:gosec // the user names the file
	if err == nil && os.SameFile(info, j.info) {
		return nil
	}
	return fmt.Errorf("data file %q was moved or removed, and new writes would be lost: restart the server", j.path)
}

// open reads the data file, drops overwritten entries, and continues from there.
func (s *Server) open(path string, d *disk) (err error) {
	path, err = filepath.Abs(path)
	j, resolved := &journal{disk: d, path: path}, path
	if _, missing := os.Lstat(path); err == nil && missing == nil { // otherwise the file is created
		resolved, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		j.file, j.info, err = openLocked(resolved, os.O_CREATE)
	}
	if err == nil {
		err = j.lost() // another server may have replaced the file before it was locked
	}
	if err == nil {
		err = s.replay(j.file, path)
	}
	if err == nil {
		err = j.compact(resolved, s.tables)
	}
	if err == nil {
		s.journal = j
		return nil
	}
	_ = j.file.Close() // nothing was written to it
	return fmt.Errorf("data file %q: %w", path, err)
}

var (
	errDamaged = errors.New("the data file is damaged: restore it from a copy, or choose another")
	begun      = regexp.MustCompile(`^(\n[0-9a-f ]*)?$`) // an entry that may have been cut short
)

// replay applies every entry. The last entry may have been cut short by a kill, and was then not acknowledged; any other
// deviation means that the file is damaged.
func (s *Server) replay(file io.Reader, path string) error {
	in, first := bufio.NewReaderSize(file, 1<<16), make([]byte, len(journalHeader))
	if _, err := io.ReadFull(in, first); err == io.EOF {
		return nil // a new file
	} else if string(first) != journalHeader {
		return errors.Join(err, errors.New("it is not a data file of this release of the embedded DynamoDB: choose a path where it can create one"))
	}
	for n := 2; ; n++ {
		body, err := readEntry(in)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err == nil {
			refused := caught(func() {
				e := decode[entry](body)
				if e.Create != nil {
					e.Create.check()
				}
				e.Item.check()
				s.apply(*e)
			})
			if refused != nil {
				err = fmt.Errorf("%w (%s)", errDamaged, refused.Message)
			}
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

// readEntry returns the JSON of the next entry. The error is io.EOF or io.ErrUnexpectedEOF if there is none, or only a part.
func readEntry(in *bufio.Reader) (body []byte, err error) {
	head, length, sum := make([]byte, len(header(0, 0))), uint32(0), uint32(0)
	n, err := io.ReadFull(in, head)
	if err == nil {
		_, _ = fmt.Sscanf(string(head), "\n%x %x", &length, &sum)
	}
	if !begun.Match(head[:n]) || err == nil && (string(head) != header(length, sum) || length > maxEntry) {
		return nil, errDamaged
	}
	if err == nil {
		body = make([]byte, length)
		_, err = io.ReadFull(in, body)
	}
	if err == nil && crc32.Checksum(body, castagnoli) != sum {
		err = errDamaged
	}
	return body, err
}

// compact writes the tables in memory to a new file, and replaces the old file in one step. It takes that step only when the
// new file is complete, on the disk and locked.
func (j *journal) compact(resolved string, tables map[string]*table) error {
	path := resolved + ".compacting"
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a server that was killed here
		return err
	}
	file, info, err := openLocked(path, os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	content := []byte(journalHeader)
	for name, t := range tables {
		content = append(content, entry{Table: name, Create: &t.madeTable}.line()...)
		for _, item := range t.rows {
			content = append(content, entry{Table: name, Item: item}.line()...)
		}
	}
	if _, err = j.write(file, content); err == nil {
		err = j.sync(file)
	}
	if err == nil {
		err = j.lost()
	}
	if err == nil {
		err = j.rename(path, resolved)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: nothing is lost; restart the server once there is room for a copy", err), file.Close(), os.Remove(path))
	}
	_ = j.file.Close() // a process that locks it now notices that it was replaced
	j.file, j.info, j.size = file, info, int64(len(content))
	return nil
}
