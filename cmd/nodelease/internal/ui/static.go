package ui

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// static returns the files of the page.
var static = sync.OnceValue(func() fs.FS {
	pages, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // cannot happen: the folder exists
	}
	return pages
})

// packed returns the files of the page in compressed form. They have a third of the size,
// so the page loads three times as fast through a slow tunnel.
var packed = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	err := fs.WalkDir(static(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(static(), name)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(text); err != nil {
			return err
		}
		err = z.Close()
		all["/"+name] = b.Bytes()
		return err
	})
	if err != nil {
		panic(err) // cannot happen: it only reads and writes memory
	}
	return all
})

// serveFile serves a file of the page.
func serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if name == "/" {
		name = "/index.html"
	}
	text, known := packed()[name]
	if !known || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		http.FileServerFS(static()).ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Content-Encoding", "gzip")
	h.Set("Vary", "Accept-Encoding")
	if r.Method == http.MethodGet {
		_, _ = w.Write(text) // fails if the page was closed
	}
}
