// Package zero calls functions and methods with values that no constructor returned: zero
// structs, nil pointers, nil contexts.
package zero

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Methods calls each exported method of v with zero arguments, and consumes the iterators
// that they return. The test fails if a method panics or does not return, or if a method
// that can return an error returns none, or an error without the text want. The methods in
// fine may return nil.
func Methods(t *testing.T, v any, want string, fine ...string) {
	t.Helper()
	for m := range reflect.TypeOf(v).Methods() {
		check(t, fmt.Sprintf("%T.%s", v, m.Name), reflect.ValueOf(v).MethodByName(m.Name), want, slices.Contains(fine, m.Name))
	}
}

// NilContext calls everything that takes a context with a nil context and otherwise zero
// arguments: the values that are functions, and the exported methods of the other values.
// The test fails for the same reasons as with Methods.
func NilContext(t *testing.T, want string, values ...any) {
	t.Helper()
	for i, v := range values {
		if f := reflect.ValueOf(v); f.Kind() == reflect.Func {
			check(t, fmt.Sprintf("function %d, %T", i+1, v), f, want, false)
			continue
		}
		for m := range reflect.TypeOf(v).Methods() {
			if f := reflect.ValueOf(v).MethodByName(m.Name); f.Type().NumIn() > 0 && f.Type().In(0) == reflect.TypeFor[context.Context]() {
				check(t, fmt.Sprintf("%T.%s", v, m.Name), f, want, false)
			}
		}
	}
}

func check(t *testing.T, name string, f reflect.Value, want string, fine bool) {
	t.Helper()
	done := make(chan struct{})
	var err error
	var can bool
	var panicked any
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		can, err = call(f)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second): // longer than any time limit of the functions themselves
		t.Fatalf("%s: got no return, want one", name)
	}
	switch {
	case panicked != nil:
		t.Errorf("%s: got a panic, %v, want none", name, panicked)
	case can && !(err == nil && fine) && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: got the error %v, want one with %q", name, err, want)
	}
}

// call calls f. It returns whether f can return an error, and the error that f returned.
func call(f reflect.Value) (can bool, err error) {
	var in []reflect.Value
	for i := range f.Type().NumIn() - btoi(f.Type().IsVariadic()) {
		in = append(in, argument(f.Type().In(i)))
	}
	for _, out := range f.Call(in) {
		switch v := out.Interface().(type) {
		case error:
			err = v
		case http.Handler:
			v.ServeHTTP(httptest.NewRecorder(), nil)
		}
		switch typ := out.Type(); {
		case typ == reflect.TypeFor[error]():
			can = true
		case typ.CanSeq2():
			for _, v := range out.Seq2() {
				if e, ok := v.Interface().(error); ok {
					err, can = e, true
				}
			}
		case typ.Kind() == reflect.Func && typ.CanSeq():
			for range out.Seq() {
			}
		}
	}
	return can, err
}

// argument returns the zero value of a parameter's type. For an http.ResponseWriter it returns
// a recorder, because net/http never passes nil.
func argument(typ reflect.Type) reflect.Value {
	if typ == reflect.TypeFor[http.ResponseWriter]() {
		return reflect.ValueOf(httptest.NewRecorder())
	}
	return reflect.Zero(typ)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
