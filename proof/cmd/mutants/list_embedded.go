package main

const (
	journalFile = "internal/embeddeddb/journal.go"
	embeddedOwn = "./internal/embeddeddb"
	embeddedAll = "./internal/embeddeddb ./internal/embeddeddb/conform"
)

// The mutants of the embedded DynamoDB: of its data file, and of the requests that it refuses.
var embeddedMutants = []mutant{
	{"embedded: the old file is replaced though the new one is not whole", journalFile, `if _, err = j.write(file, content); err == nil {`, `if _, _ = j.write(file, content); err == nil {`, embeddedOwn},
	{"embedded: the old file is replaced by one that is not synced", journalFile, `err = j.sync(file)`, `_ = j.sync(file)`, embeddedOwn},
	{"embedded: a refused write stays in the file", journalFile, `_ = j.cut() // or before the next entry`, `j.dirty = false`, embeddedOwn},
	{"embedded: what could not be cut off stays in front of the next write", journalFile, `if j.dirty {`, `if false {`, embeddedOwn},
	{"embedded: it goes on without its file", journalFile, `os.SameFile(info, j.info)`, `os.SameFile(info, info)`, embeddedOwn},
	{"embedded: a write to a file that was taken away is acknowledged", journalFile, `if _, err = j.write(j.file, line); err == nil {`, `if _, err = j.write(j.file, line); false {`, embeddedOwn},
	{"embedded: checksums are not looked at", journalFile, `err == nil && crc32.Checksum(body, castagnoli) != sum`, `false`, embeddedOwn},
	{"embedded: lengths are not checked", journalFile, `string(head) != header(length, sum) ||`, `false ||`, embeddedOwn},
	{"embedded: entries are not checked", journalFile, `				e.Item.check()
`, ``, embeddedOwn},
	{"embedded: a link at the new file's place is followed", journalFile, `file, info, err := openLocked(path, os.O_CREATE|os.O_EXCL)`, `info := j.info; file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)`, embeddedOwn},
	{"embedded: a second hard link is not noticed", "internal/embeddeddb/file_unix.go", `about.Nlink > 1`, `about.Nlink > 2`, embeddedOwn},
	{"embedded: a file that others may write to is taken", "internal/embeddeddb/file_unix.go", `info.Mode().Perm()&0o022 != 0`, `false`, embeddedOwn},
	{"embedded: a file of somebody else is taken", "internal/embeddeddb/file_unix.go", `int(about.Uid) != os.Geteuid()`, `false`, embeddedOwn},
	{"embedded: types are judged before what is unknown", "internal/embeddeddb/decode.go", `in, ok := any(to).(interface{ know() }); ok {`, `in, ok := any(to).(interface{ know() }); ok && err == nil {`, embeddedOwn},
	{"embedded: a function is known in any place", "internal/embeddeddb/parser.go", `case isCall && !calls.MatchString(kind+" "+before.text+" "+name.text):`, `case isCall && !calls.MatchString(kind+" "+before.text+" "+name.text) && false:`, embeddedOwn},
	{"embedded: a file has two servers", "internal/embeddeddb/file_unix.go", `syscall.LOCK_EX|syscall.LOCK_NB`, `syscall.LOCK_SH|syscall.LOCK_NB`, embeddedOwn},
	{"embedded: any Host is answered", "internal/embeddeddb/server.go", `(local.Guard{}).Check(r) != nil`, `(local.Guard{Remote: true, Hosts: []string{local.Name(r.Host)}}).Check(r) != nil`, embeddedOwn},
	{"embedded: any Origin is answered", "internal/local/local.go", `for _, origin := range r.Header["Origin"] {`, `for _, origin := range r.Header["Origin"][:0] {`, embeddedOwn},
	{"embedded: an empty Origin hides another", "internal/local/local.go", `for _, origin := range r.Header["Origin"] {`, `for _, origin := range r.Header["Origin"] {
		if r.Header.Get("Origin") == "" {
			break
		}`, embeddedOwn},
	{"embedded: a long body is refused while it comes", "internal/embeddeddb/server.go", `_, _ = io.CopyN(io.Discard, r.Body, 4*maxBody)`, ``, embeddedOwn},
	{"embedded: a deleted table is described as it was", "internal/embeddeddb/table.go", `status == "ACTIVE" {`, `true {`, embeddedAll},
	{"embedded: members may be there twice", "internal/embeddeddb/decode.go", `name == names[i-1]`, `false`, embeddedOwn},
	{"embedded: half a character is taken", "internal/embeddeddb/decode.go", `bytes.IndexByte(data, '\\') >= 0 && surrogate.Match(escapes.ReplaceAll(data, nil))`, `bytes.Equal(nil, escapes.ReplaceAll(nil, nil)) && surrogate.Match(nil)`, embeddedOwn},
	{"embedded: two types are one value", "internal/embeddeddb/value.go", `n := len(v.kinds()); n != 1`, `n := len(v.kinds()); n < 1`, embeddedAll},
	{"embedded: an update that only removes makes an item", "internal/embeddeddb/write.go", `if len(u) > 0 && len(now) == len(key) && t.get(key) == nil {`, `if false {`, embeddedAll},
	{"embedded: an update makes an item too large", "internal/embeddeddb/write.go", `if now.size() > maxItem {`, `if false {`, embeddedOwn},
	{"embedded: a long request keeps its place", "internal/embeddeddb/server.go", `defer func() { <-s.large }()`, `defer func() {}()`, embeddedOwn},
}
