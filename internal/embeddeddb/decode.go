package embeddeddb

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"unicode/utf8"
)

const (
	maxDepth   = 200      // of brackets
	maxNesting = 1 + 2*32 // of those that are served: items have at most 32 levels, of two brackets each
)

var (
	escapes   = regexp.MustCompile(`\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|[^u])`) // whole ones, with all that may hide half of one
	surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// decode reads a JSON document. It is stricter than encoding/json, which matches names in any case, keeps the last of two
// equal members and turns broken text into U+FFFD: each of these would make one request of two.
//
// Unknown members and values are refused by name, before anything else is judged: members, and what know finds in their values. To
// serve a request without one of its conditions would be to lie.
func decode[T any](data []byte) *T {
	if !utf8.Valid(data) || surrogate.Match(escapes.ReplaceAll(data, nil)) {
		panic(serialization("the request is not of UTF-8 text"))
	}
	w, to := walk{d: json.NewDecoder(bytes.NewReader(data))}, new(T)
	w.value(reflect.TypeFor[T](), 0)
	if w.unknown != "" {
		refuseUnsupported(w.unknown)
	}
	err := json.Unmarshal(data, to) // goes on after a wrong type
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

type walk struct {
	d       *json.Decoder
	unknown string // the first member that the type does not have
	wrong   func() // refuses what else is wrong, once it is clear that there are no such members
}

func (w *walk) token() json.Token {
	t, err := w.d.Token()
	if err != nil {
		panic(serialization("the request is malformed: %v", err))
	}
	return t
}

// value walks through the next value, of a type that is nil where nobody knows.
func (w *walk) value(t reflect.Type, depth int) {
	open, ok := w.token().(json.Delim)
	if !ok {
		return
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth++; depth > maxDepth {
		panic(serialization("the request is nested too deep"))
	}
	if depth > maxNesting {
		w.wrong = func() {
			refuse("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")
		}
	}
	seen := map[string]bool{}
	for w.d.More() {
		var inner reflect.Type
		if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
			inner = t.Elem()
		}
		if open == '{' {
			name := w.token().(string) //nolint:forcetypeassert // the decoder wants names there
			if seen[name] {
				w.wrong = func() { panic(serialization("the member %.100q is there twice", name)) }
			}
			seen[name] = true
			if t != nil && t.Kind() == reflect.Struct {
				if field, known := t.FieldByName(name); known && field.IsExported() {
					inner = field.Type
				} else if w.unknown == "" {
					w.unknown = strconv.Quote(name[:min(len(name), 100)])
				}
			}
		}
		w.value(inner, depth)
	}
	w.token()
}
