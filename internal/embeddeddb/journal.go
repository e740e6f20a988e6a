package embeddeddb

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// An entry is one change of the database. Every change is one and is made by apply alone, so that
// a journal of entries replays to what was in memory.
type entry struct {
	Table  string
	Create *tableDefinition `json:",omitempty"`
	Drop   bool             `json:",omitempty"`
	Item   Item             `json:",omitempty"`
}

func (s *Server) apply(e entry) {
	switch {
	case e.Create != nil:
		s.tables[e.Table] = &table{*e.Create, map[string][]Item{}}
	case e.Drop:
		delete(s.tables, e.Table)
	default:
		s.tables[e.Table].put(e.Item)
	}
}

const internalError = "InternalServerError"

// commit makes a change. It is in the journal before anybody can see or hear of it: a write that
// was acknowledged is there again after a kill -9.
func (s *Server) commit(e entry) {
	if s.journal != nil {
		if err := s.journal.append(e); err != nil {
			panic(failure(internalError, "%v", err))
		}
	}
	s.apply(e)
}

// A journal is a file of entries, one JSON object a line, after a line that says what it is.
type journal struct {
	file   *os.File
	lock   io.Closer
	broken error // the file may end in half a line, and takes no more
}

const journalHeader = "nodelease embedded DynamoDB, journal version 1\n"

func (j *journal) append(e entry) error {
	if j.broken != nil {
		return j.broken
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		j.broken = fmt.Errorf("the data file cannot be written, start the server again: %w", err)
	}
	return j.broken
}

func (j *journal) close() error {
	j.broken = os.ErrClosed
	return errors.Join(j.file.Close(), j.lock.Close())
}

// open reads the data file, leaves out what has been overwritten since, and goes on from there.
func (s *Server) open(path string) error {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("data file %q: %w: use a file in a directory that this user may write to", path, err)
	}
	j := &journal{lock: lock}
	if err = s.replay(path); err == nil {
		j.file, err = s.compact(path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("data file %q: %w", path, err), lock.Close())
	}
	s.journal = j
	return nil
}

// replay applies every whole line. A last one without its end is of a write that nobody was told
// of; any other bad line means that the file is not what it should be.
func (s *Server) replay(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		var e entry
		switch torn := err == io.EOF; {
		case err != nil && !torn:
			return err
		case n == 1 && (line != journalHeader && !torn || !strings.HasPrefix(journalHeader, line)):
			return fmt.Errorf("%s is not a data file of the embedded DynamoDB: name one that it may make", path)
		case torn:
			return nil
		case n == 1:
		case json.Unmarshal([]byte(line), &e) != nil, s.tables[e.Table] == nil && e.Create == nil:
			return fmt.Errorf("%s:%d: the data file is damaged: restore it or name another", path, n)
		default:
			s.apply(e)
		}
	}
}

// compact writes what is in memory to a new file and puts it in the place of the old in one step.
func (s *Server) compact(path string) (*os.File, error) {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriter(file)
	_, err = w.WriteString(journalHeader)
	for name, t := range s.tables {
		err = errors.Join(err, json.NewEncoder(w).Encode(entry{Table: name, Create: &t.tableDefinition}))
		for _, rows := range t.partitions {
			for _, item := range rows {
				err = errors.Join(err, json.NewEncoder(w).Encode(entry{Table: name, Item: item}))
			}
		}
	}
	if err = errors.Join(err, w.Flush(), file.Sync(), os.Rename(path+".new", path)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
