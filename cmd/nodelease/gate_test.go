package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// Text leaves this program only through say and writeJSON, which accept only text that has
// passed the gate of internal/text. The compiler checks the types. This test checks the
// rest: no code prints in another way, formats are constants of the program, and only
// functions that render safe text again may declare a string safe.
func TestNothingAroundTheGate(t *testing.T) {
	const gate = "github.com/nodelease/nodelease/internal/text"
	vouchers := []string{"ink.of", "folded", "sheet.text", "command", "globals.message", "outageLine", "progressOn", "newVersion", "runDemo", "run"}
	ways := map[string][]string{
		"fmt":                        {"Print", "Printf", "Println", "Fprint", "Fprintf", "Fprintln"},
		"io":                         {"WriteString", "Copy"},
		"os":                         {"Stdout", "Stderr"},
		"log":                        {"Print", "Printf", "Println", "Fatal", "Fatalf"},
		"log/slog":                   {"NewTextHandler", "NewJSONHandler", "Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs"},
		"encoding/json":              {"NewEncoder"},
		"encoding/csv":               {"NewWriter"},
		"charm.land/lipgloss/v2":     {"Print", "Printf", "Println", "Fprint", "Fprintf", "Fprintln"},
		"github.com/spf13/cobra":     {"Print", "Printf", "Println", "PrintErr", "PrintErrf", "PrintErrln"},
		"charm.land/bubbletea/v2":    {"Println", "Printf"},
		"github.com/spf13/cobra/doc": {},
	}
	// These calls print text that has passed the gate, or only pass a stream on.
	allowed := []string{
		"say charm.land/lipgloss/v2.Fprint",
		"main os.Stdout", "main os.Stderr",
		"newLog log/slog.NewTextHandler",    // its attributes pass text.Attr
		"listed.csv encoding/csv.NewWriter", // its cells pass text.Cell
		"newDynamoDB io.Copy",               // to io.Discard
		"main log/slog.SetDefault", "runServe log/slog.SetDefault", "runServe log/slog.Default", "fixedNode log/slog.SetDefault",
		"runExec log/slog.Warn", "deadlineFile.follow log/slog.Warn", // the log lines of libraries pass newLog
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports}, ".")
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatal(err, loaded)
	}
	p := loaded[0]
	seen := 0
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			where := nameOf(decl)
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					object := p.TypesInfo.Uses[n.Sel]
					if object == nil || object.Pkg() == nil {
						return true
					}
					from, name := object.Pkg().Path(), object.Name()
					if slices.Contains(ways[from], name) && !slices.Contains(allowed, where+" "+from+"."+name) {
						t.Errorf("%s: %s uses %s.%s: print by say or writeJSON", p.Fset.Position(n.Pos()), where, from, name)
					}
					if from == gate && name == "Trusted" && !slices.Contains(vouchers, where) {
						t.Errorf("%s: %s vouches for a string: use text.Sprintf", p.Fset.Position(n.Pos()), where)
					}
				case *ast.CallExpr:
					if format := formatOf(p.TypesInfo, n, gate); format != nil {
						seen++
						if tv := p.TypesInfo.Types[format]; tv.Value == nil || tv.Value.Kind() != constant.String {
							if !forwarded(where, format) {
								t.Errorf("%s: the format is not constant", p.Fset.Position(n.Pos()))
							}
						}
					}
				case *ast.BasicLit:
					if n.Kind == token.STRING && strings.Contains(n.Value, `\x1b`) {
						t.Errorf("%s: a control sequence outside the gate", p.Fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
	if seen < 50 {
		t.Errorf("checked %d formats, want all of the program's", seen)
	}
}

// formatOf returns the format of a call that lets its arguments through the gate.
func formatOf(info *types.Info, call *ast.CallExpr, gate string) ast.Expr {
	var name *ast.Ident
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel
	case *ast.Ident:
		name = f
	default:
		return nil
	}
	f, ok := info.Uses[name].(*types.Func)
	if !ok || f.Pkg() == nil || len(call.Args) == 0 {
		return nil
	}
	ours := f.Pkg().Path() == gate && (f.Name() == "Sprintf" || f.Name() == "Printf") || f.Name() == "of" && strings.HasSuffix(f.FullName(), "ink).of")
	if !ours {
		return nil
	}
	return call.Args[0]
}

// forwarded reports whether a function passes on the format that it was called with.
func forwarded(where string, format ast.Expr) bool {
	name, ok := format.(*ast.Ident)
	return ok && where == "ink.of" && name.Name == "format"
}

// nameOf returns the name of a declaration; a method's name begins with that of its type.
func nameOf(decl ast.Decl) string {
	f, ok := decl.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
