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
	maxNesting = 1 + 2*32 // of those that are served: items have at most 32 levels, of two brackets each
)

var (
	escapes   = regexp.MustCompile(`\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|[^u])`) // whole ones, with all that may hide half of one
	surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// decode reads a JSON document. It is stricter than encoding/json, which matches names in any case, keeps the last of two
// equal members and turns broken text into U+FFFD: each of these would make one request of two.
//
// Unknown members and values are refused by name, before anything else is judged: members, and the values that know rejects. To
// serve a request without one of its conditions would be to lie.
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
	data    []byte // that is left
	unknown string // the first member that the type does not have
	wrong   func() // refuses what else is wrong, once it is clear that there are no such members
}

// space leaves spaces out, and the signs between two values, and returns the next token.
func (w *walk) space() byte {
	for w.data[0] <= ' ' || w.data[0] == ',' || w.data[0] == ':' {
		w.data = w.data[1:]
	}
	return w.data[0]
}

// text leaves a text out, and returns it.
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

// value goes through the next value, of a type that is nil if unknown.
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

// wantDistinct wants each member of an object once.
func (w *walk) wantDistinct(names []string) {
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if name := names[i]; name == names[i-1] {
			w.wrong = func() { panic(serialization("the member %.100q appears twice", name)) }
		}
	}
}

var knownFields sync.Map // of the types of requests: see fieldsOf

// fieldsOf are the members that a type of object has.
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
