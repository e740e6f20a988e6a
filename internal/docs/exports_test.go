package docs

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/nodelease/nodelease/"

// Packages that people run and copy. The last is shared by cmd and the proof.
var users = []string{"examples/", "cmd/", "functions/", "infra/", "internal/app/"}

// userless lists the exported names that nothing else in the repository uses, each with the
// reason for keeping it.
var userless = map[string]string{
	"pkg/cluster.Beat":        "the input of a Coordinator; backends outside of this repository read it",
	"pkg/cluster/clustertest": "the conformance suite for such backends; ours pass it",

	"pkg/lease/leaselambda.Agent":           "the result of Wrap; a program that passes it on in another way creates one with New",
	"pkg/lease/leaselambda.New":             "see Agent",
	"pkg/lease/leaselambda.ErrNoInvocation": "with which callers distinguish a wrong context from an unavailable store",
	"pkg/lease/leaselambda.IDs.NextN":       "IDs in batches; the example requests them one by one, each of which may renew",
	"infra/nodepool.FunctionUse":            "for functions with other settings than the defaults",

	"pkg/lease/leasepool.Pool.Widen": "part of Resize and of the agents; the simulations call it concurrently",
}

// Methods that are called through interfaces of the standard library.
var standard = []string{
	"Error", "Is", "Unwrap", "String", "LogValue", "ServeHTTP", "Scan", "Value", "IsZero", "AppendText", "MarshalText", "UnmarshalText",
	"AppendBinary", "MarshalBinary", "UnmarshalBinary", "MarshalJSON", "UnmarshalJSON",
}

// Each exported name of the public packages, including methods and fields, is used in an
// example, by a command, or by another public package that needs it: unused names are not
// promised.
func TestExportedNamesHaveUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("in -short: it compiles the CDK, which no other package needs")
	}
	s := survey{fset: token.NewFileSet(), names: map[types.Object]string{}, at: map[string]types.Object{}, used: map[types.Object]bool{}}
	load := func(tests bool, patterns ...string) []*packages.Package {
		loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Fset: s.fset, Tests: tests, Dir: root}, patterns...)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range loaded {
			if len(p.Errors) > 0 {
				t.Fatal(p.ID, p.Errors[0])
			}
		}
		return loaded
	}
	product := load(false, "./pkg/...", "./cmd/...", "./functions/...", "./infra/...", "./internal/...")
	for _, p := range product {
		if isPublic(p.PkgPath) {
			s.declare(p)
		}
	}
	for _, p := range append(product, load(true, "./examples/...")...) { // an example's test is copied too
		s.look(p)
	}
	s.close()

	excused := map[string]bool{}
	for obj, name := range s.names {
		switch {
		case s.used[obj]:
		case excuse(name) != "":
			excused[excuse(name)] = true
		default:
			t.Errorf("%s has no user in examples/ or cmd/: delete it, unexport it, or give it one", name)
		}
	}
	for name := range userless {
		if !excused[name] {
			t.Errorf("%s has users, or does not exist: remove its excuse", name)
		}
	}
}

// excuse returns the entry of userless that covers a name: the name itself, its type or its
// package.
func excuse(name string) string {
	for u := range userless {
		if name == u || strings.HasPrefix(name, u+".") {
			return u
		}
	}
	return ""
}

func isPublic(path string) bool {
	return strings.HasPrefix(path, module+"pkg/") || path == module+"infra/nodepool"
}

// A survey has the exported names, and records which of them are used.
type survey struct {
	fset  *token.FileSet
	names map[types.Object]string
	at    map[string]types.Object // by where they are declared, since packages that examples import are loaded twice
	used  map[types.Object]bool
	asked []*types.Interface
}

func (s *survey) where(obj types.Object) string {
	if obj.Pkg() == nil { // predeclared, such as error
		return obj.Name()
	}
	p := s.fset.Position(obj.Pos())
	// Positions in compiled packages have no columns, and with -trimpath no folders.
	return fmt.Sprint(obj.Pkg().Path(), filepath.Base(p.Filename), p.Line, obj.Name())
}

// declare adds a public package. An alias promises its names as well: those of the
// aliased type are promised too.
func (s *survey) declare(p *packages.Package) {
	add := func(obj types.Object, name string) {
		if at := s.where(obj); obj.Exported() && s.at[at] == nil {
			s.at[at], s.names[obj] = obj, strings.TrimPrefix(p.PkgPath, module)+"."+name
		}
	}
	for _, name := range p.Types.Scope().Names() {
		obj := p.Types.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		add(obj, name)
		named := asType(obj)
		if named == nil {
			continue
		}
		for m := range named.Methods() {
			add(m, name+"."+m.Name())
		}
		switch u := named.Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				if !f.Embedded() {
					add(f, name+"."+f.Name())
				}
			}
		case *types.Interface:
			for m := range u.ExplicitMethods() {
				add(m, name+"."+m.Name())
			}
		}
	}
}

// look finds the uses in a package.
func (s *survey) look(p *packages.Package) {
	path := strings.TrimPrefix(p.PkgPath, module)
	isUser := !isPublic(p.PkgPath) && slices.ContainsFunc(users, func(prefix string) bool { return strings.HasPrefix(path+"/", prefix) })
	for _, f := range p.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				obj := p.TypesInfo.Uses[n]
				if obj != nil && (isUser || (isPublic(p.PkgPath) || path == "internal/tenure") && obj.Pkg() != p.Types) { // tenure is a room of pkg/lease
					s.use(obj)
				}
			case *ast.InterfaceType:
				if i, ok := p.TypesInfo.TypeOf(n).(*types.Interface); ok {
					s.asked = append(s.asked, i)
				}
			}
			return true
		})
	}
}

// use marks a name and the types that it mentions: the caller of a function has values of
// them.
func (s *survey) use(obj types.Object) {
	if obj = s.at[s.where(obj)]; obj == nil || s.used[obj] {
		return
	}
	s.used[obj] = true
	if _, ok := obj.(*types.TypeName); !ok {
		s.mention(obj.Type())
	} else if a, ok := obj.Type().(*types.Alias); ok {
		s.mention(a.Rhs())
	}
}

func (s *survey) mention(t types.Type) {
	switch t := t.(type) {
	case *types.Alias:
		s.use(t.Obj())
		s.mention(t.Rhs())
	case *types.Named:
		s.use(t.Obj())
		for a := range t.TypeArgs().Types() {
			s.mention(a)
		}
	case *types.Map:
		s.mention(t.Key())
		s.mention(t.Elem())
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel
		s.mention(t.Elem())
	case *types.Signature:
		for v := range t.Params().Variables() {
			s.mention(v.Type())
		}
		for v := range t.Results().Variables() {
			s.mention(v.Type())
		}
	}
}

// close marks names that are used as a part of a used whole: the constants of a type, the
// fields of an encoded struct, the methods of an interface, and the methods with which a
// type implements an interface.
func (s *survey) close() {
	for before := -1; before != len(s.used); {
		before = len(s.used)
		for obj := range s.names {
			if c, ok := obj.(*types.Const); ok {
				if n, ok := types.Unalias(c.Type()).(*types.Named); ok && s.used[n.Obj()] {
					s.use(obj)
				}
			}
			named := asType(obj)
			if named == nil || !s.used[obj] {
				continue
			}
			for m := range named.Methods() {
				if slices.Contains(standard, m.Name()) || s.isAsked(named, m.Name()) {
					s.use(m)
				}
			}
			switch u := named.Underlying().(type) {
			case *types.Struct:
				for i := range u.NumFields() {
					if reflect.StructTag(u.Tag(i)).Get("json") != "" {
						s.use(u.Field(i))
					}
				}
			case *types.Interface:
				for m := range u.ExplicitMethods() {
					s.use(m)
				}
			}
		}
	}
}

// isAsked reports whether some code checks for an interface that the type implements with
// this method.
func (s *survey) isAsked(n *types.Named, method string) bool {
	return slices.ContainsFunc(s.asked, func(i *types.Interface) bool {
		for m := range i.Methods() {
			if m.Name() == method {
				return types.Implements(types.NewPointer(n), i)
			}
		}
		return false
	})
}

func asType(obj types.Object) *types.Named {
	if _, ok := obj.(*types.TypeName); !ok {
		return nil
	}
	n, _ := types.Unalias(obj.Type()).(*types.Named)
	return n
}
