package embeddeddb

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxDepth   = 200 // of brackets
	tooDeep    = "the request is nested too deep"
	maxNesting = 1 + 2*32 // of brackets in requests that are served: items have at most 32 levels, of two brackets each
)

var (
	escapes   = regexp.MustCompile(`\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|[^u])`) // whole pairs, and escapes that look like half a pair
	surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// decode reads a JSON document. It is stricter than encoding/json, which matches names in any case, keeps the last of two
// equal members and turns broken text into U+FFFD: each of these would make different requests equal.
//
// Unknown members, and values that know rejects, are refused by name before anything else
// is checked. If they were ignored, a request could be served without one of its
// conditions.
func decode[T any](data []byte) *T {
	if !utf8.Valid(data) || bytes.IndexByte(data, '\\') >= 0 && surrogate.Match(escapes.ReplaceAll(data, nil)) {
		panic(serialization("the request is not valid UTF-8"))
	}
	to := new(T)
	err := json.Unmarshal(data, to) // continues after a wrong type
	if malformed := (*json.SyntaxError)(nil); errors.As(err, &malformed) {
		if strings.HasSuffix(err.Error(), "exceeded max depth") {
			panic(serialization(tooDeep))
		}
		panic(serialization("the request is malformed: %v", err))
	}
	w := walk{data: data}
	w.value(reflect.TypeFor[T](), 0)
	if w.unknown != "" {
		refuseUnsupported(w.unknown)
	}
	if in, ok := any(to).(interface{ know() }); ok {
		in.know()
	}
	if w.wrong != nil {
		w.wrong()
	}
	if err != nil {
		panic(serialization("%v", err))
	}
	return to
}

// walk goes through a document that is valid JSON.
type walk struct {
	data    []byte // the rest of the document
	unknown string // the first member that the type does not have
	wrong   func() // refuses another defect, once it is clear that there are no unknown members
}

// space skips spaces, commas and colons, and returns the first byte of the next token.
func (w *walk) space() byte {
	for w.data[0] <= ' ' || w.data[0] == ',' || w.data[0] == ':' {
		w.data = w.data[1:]
	}
	return w.data[0]
}

// text skips a string, and returns its text.
func (w *walk) text() string {
	end, escaped := 1, false
	for ; w.data[end] != '"'; end++ {
		if w.data[end] == '\\' {
			escaped = true
			end++
		}
	}
	quoted := w.data[:end+1]
	w.data = w.data[end+1:]
	if !escaped {
		return string(quoted[1:end])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}

// value goes through the next value. t is its type; nil if that is not known.
func (w *walk) value(t reflect.Type, depth int) {
	open := w.space()
	switch open {
	case '{', '[':
		w.data = w.data[1:]
	case '"':
		w.text()
		return
	default: // a number, true, false or null
		if end := bytes.IndexAny(w.data, ",]} \t\r\n"); end >= 0 {
			w.data = w.data[end:]
		}
		return
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth++; depth > maxDepth {
		panic(serialization(tooDeep))
	}
	if depth > maxNesting {
		w.wrong = func() {
			refuse("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")
		}
	}
	var inner reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		inner = t.Elem()
	}
	var fields map[string]reflect.Type // nil: any names
	if t != nil && t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	var names []string
	for next := w.space(); next != '}' && next != ']'; next = w.space() {
		if open == '{' {
			name := w.text()
			names = append(names, name)
			if fields != nil {
				var known bool
				if inner, known = fields[name]; !known && w.unknown == "" {
					w.unknown = strconv.Quote(name[:min(len(name), 100)])
				}
			}
		}
		w.value(inner, depth)
	}
	w.data = w.data[1:]
	w.wantDistinct(names)
}

// wantDistinct refuses an object with two members of the same name.
func (w *walk) wantDistinct(names []string) {
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if name := names[i]; name == names[i-1] {
			w.wrong = func() { panic(serialization("the member %.100q appears twice", name)) }
		}
	}
}

var knownFields sync.Map // results of fieldsOf, by type

// fieldsOf returns the members that an object of a type may have, with their types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]reflect.Type) //nolint:forcetypeassert // nothing else is in it
	}
	all := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() {
			all[f.Name] = f.Type
		}
	}
	knownFields.Store(t, all)
	return all
}
