package docs

import (
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// api lists the exports of a public package, one line per name: these are the names that
// a program can compile against.
func api(p *types.Package) (lines []string) {
	path := strings.TrimPrefix(p.Path(), module)
	short := func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Name()
	}
	add := func(format string, args ...any) { lines = append(lines, path+", "+fmt.Sprintf(format, args...)) }
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		if c, ok := obj.(*types.Const); ok {
			add("const %s %s = %s", name, types.TypeString(c.Type(), short), c.Val().ExactString())
			continue
		}
		if _, ok := obj.(*types.TypeName); !ok {
			add("%s", types.ObjectString(obj, short))
			continue
		}
		named := asType(obj)
		if named == nil {
			add("%s", types.ObjectString(obj, short))
			continue
		}
		switch u := named.Underlying().(type) {
		case *types.Struct:
			add("type %s struct%s", name, comparable(u))
			for i := range u.NumFields() {
				if f := u.Field(i); f.Exported() {
					tag := u.Tag(i)
					if tag != "" {
						tag = " `" + tag + "`"
					}
					embedded := ""
					if f.Embedded() {
						embedded = "embedded "
					}
					add("type %s struct, %s%s %s%s", name, embedded, f.Name(), types.TypeString(f.Type(), short), tag)
				}
			}
		case *types.Interface:
			sealed := ""
			for m := range u.Methods() {
				if m.Exported() {
					add("type %s interface, %s%s", name, m.Name(), strings.TrimPrefix(types.TypeString(m.Type(), short), "func"))
				} else {
					sealed = ", sealed"
				}
			}
			add("type %s interface%s", name, sealed)
		default:
			add("type %s %s", name, types.TypeString(u, short))
		}
		for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
			f, ok := m.Obj().(*types.Func)
			if _, isInterface := named.Underlying().(*types.Interface); !ok || !f.Exported() || isInterface {
				continue
			}
			receiver := name
			if _, ok := f.Signature().Recv().Type().(*types.Pointer); ok {
				receiver = "*" + name
			}
			add("method (%s) %s%s", receiver, f.Name(), strings.TrimPrefix(types.TypeString(f.Type(), short), "func"))
		}
	}
	slices.Sort(lines)
	return lines
}

// comparable reports whether values of a struct can be compared with ==, which an added
// field may change.
func comparable(s *types.Struct) string {
	if types.Comparable(s) {
		return ", comparable"
	}
	return ""
}

// The exported API of the public packages is a contract: api/go.txt has it. TestAPIChanges
// of the module release decides which changes break programs.
func TestAPIBaseline(t *testing.T) {
	if testing.Short() {
		t.Skip("in -short: it compiles the CDK, which no other package needs")
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadTypes, Dir: root}, "./pkg/...", "./infra/nodepool")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			t.Fatal(p.ID, p.Errors[0])
		}
		lines = append(lines, api(p.Types)...)
	}
	slices.Sort(lines)
	compare(t, "api/go.txt", lines)
}

// compare compares lines with a baseline and reports each difference. With -update it replaces the baseline.
func compare(t *testing.T, file string, lines []string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join(root, file), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was := strings.Split(strings.TrimSuffix(read(t, file), "\n"), "\n")
	for _, l := range was {
		if !slices.Contains(lines, l) {
			t.Errorf("%s: gone: %s", file, l)
		}
	}
	for _, l := range lines {
		if !slices.Contains(was, l) {
			t.Errorf("%s: new: %s", file, l)
		}
	}
	if t.Failed() {
		t.Error("if that is intended, run make api, and add the line to CHANGELOG.md that TestBaselinesInChangelog asks for")
	}
}
