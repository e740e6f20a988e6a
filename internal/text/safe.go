package text

import (
	"fmt"
	"reflect"
	"strings"
)

// Safe is text that may be shown. Outside this package, a string becomes Safe only by
// functions such as [Sprintf], which lets every argument through the gate, or by
// [Trusted].
type Safe struct{ s string }

// String returns the text.
func (s Safe) String() string { return s.s }

// Empty reports whether there is no text.
func (s Safe) Empty() bool { return s.s == "" }

// Trusted makes text Safe without a check; the caller vouches for it. It is for code that
// adds to Safe text: colors, columns, the frame of a screen. A test lists its callers.
func Trusted(s string) Safe { return Safe{s} }

// Sprintf formats like [fmt.Sprintf]. The format is the program's own and is not changed;
// a test refuses formats that are not constant. Every argument passes [Line], except
// that errors pass [Error] and Safe text does not change. The strings of a slice pass one
// by one.
func Sprintf(format string, args ...any) Safe {
	gated := make([]any, len(args))
	for i, arg := range args {
		gated[i] = gate(arg)
	}
	return Safe{fmt.Sprintf(format, gated...)}
}

// gate returns a value that prints as arg does, but with unsafe characters escaped as by
// Line.
func gate(arg any) any {
	switch v := arg.(type) {
	case nil:
		return nil
	case Safe:
		return v.s
	case error:
		return Error(v)
	case fmt.Stringer:
		return Line(fmt.Sprint(v))
	case string:
		return Line(v)
	case []byte:
		return Line(string(v))
	case []string:
		lines := make([]string, len(v))
		for i, s := range v {
			lines[i] = Line(s)
		}
		return lines
	}
	switch v := reflect.ValueOf(arg); v.Kind() {
	case reflect.String:
		return Line(v.String())
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return arg
	}
	return Line(fmt.Sprint(arg)) // whatever it has inside
}

// Join puts sep between texts.
func Join(parts []Safe, sep string) Safe {
	all := make([]string, len(parts))
	for i, p := range parts {
		all[i] = p.s
	}
	return Safe{strings.Join(all, Line(sep))}
}

// Builder collects Safe text. Its zero value is empty.
type Builder struct{ b strings.Builder }

// Printf appends what [Sprintf] returns.
func (b *Builder) Printf(format string, args ...any) { b.b.WriteString(Sprintf(format, args...).s) }

// Add appends s.
func (b *Builder) Add(s Safe) { b.b.WriteString(s.s) }

// Safe returns the collected text.
func (b *Builder) Safe() Safe { return Safe{b.b.String()} }
