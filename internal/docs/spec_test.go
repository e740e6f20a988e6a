package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// leasing has the packages that implement the protocol.
var leasing = []string{"internal/protocol", "internal/tenure", "pkg/lease/leasepool", "pkg/lease"}

// proof/spec/README.md names the Go functions of each step of the specification.
// Each Go function that may be a step is named there, either with its step or with
// the reason why it has none. The format of the page's tables is checked here.
func TestSpecificationNamesItsFunctions(t *testing.T) {
	functions := map[string]bool{}
	for _, dir := range append(leasing, "pkg/snowflake") {
		for name := range goFunctions(t, dir) {
			functions[name] = true
		}
	}
	readme := read(t, "proof/spec/README.md")
	told := map[string]bool{} // of Go names
	for _, module := range []string{"Lease.tla", "Widening.tla", "Layout.tla"} {
		text := read(t, "proof/spec/"+module)
		rows := tableRows(t, readme, "### "+module, 3)
		actions := map[string]bool{}
		for _, row := range rows {
			for _, action := range names(row[0]) {
				actions[action] = true
				if !definition(action).MatchString(text) {
					t.Errorf("%s is in the table of %s, which does not define it", action, module)
				}
			}
			goNames := names(row[1])
			if len(goNames) == 0 {
				t.Errorf("%s of %s: no Go name", row[0], module)
			}
			for _, name := range goNames {
				told[name] = true
				if !functions[name] {
					t.Errorf("%s of %s: no function %s in %v or pkg/snowflake", row[0], module, name, leasing)
				}
			}
		}
		for _, action := range actionsOfNext(text) {
			if !actions[action] {
				t.Errorf("action %s of %s has no row in proof/spec/README.md", action, module)
			}
		}
	}
	for _, row := range tableRows(t, readme, "### Without a step", 2) {
		for _, name := range names(row[0]) {
			if told[name] {
				t.Errorf("%s has a step, and is listed without one", name)
			}
			if !functions[name] {
				t.Errorf("no function %s in %v or pkg/snowflake", name, leasing)
			}
			told[name] = true
		}
	}
	for _, dir := range leasing {
		for name := range goFunctions(t, dir) {
			receiver, method, _ := strings.Cut(name, ".")
			if (method == "Apply" || receiver == "Term" || receiver == "Pool" && ast.IsExported(method)) && !told[name] {
				t.Errorf("%s of %s is a step of the specification, or is none for a reason: add it to a table of proof/spec/README.md", name, dir)
			}
		}
	}
}

// goFunctions returns the names of a package's functions and methods, including
// the methods of interfaces: "function" or "Type.method".
func goFunctions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil {
					name = receiverName(n.Recv.List[0].Type) + "." + name
				}
				found[name] = true
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						for _, id := range m.Names {
							found[n.Name.Name+"."+id.Name] = true
						}
					}
				}
			}
			return true
		})
	}
	return found
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// tableRows returns the cells of the table under a heading of a page.
func tableRows(t *testing.T, page, heading string, columns int) (rows [][]string) {
	t.Helper()
	_, section, ok := strings.Cut(page, heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == columns && !strings.HasPrefix(line, "|---") {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) < 2 {
		t.Fatalf("no table under %q", heading)
	}
	return rows[1:]
}

var quoted = regexp.MustCompile("`([^`]+)`")

func names(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

func definition(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(\([^)]*\))?\s*==`)
}

// actionsOfNext returns the operators in a module's Next that change something.
func actionsOfNext(text string) (actions []string) {
	next := regexp.MustCompile(`(?s)\nNext ==\n(.*?)\n\n`).FindStringSubmatch(text)
	for _, name := range regexp.MustCompile(`[A-Z]\w*`).FindAllString(next[1], -1) {
		at := definition(name).FindStringIndex(text)
		if at == nil {
			continue
		}
		body, _, _ := strings.Cut(text[at[1]:], "\n\n")
		if strings.Contains(body, "'") || strings.Contains(body, "UNCHANGED") {
			actions = append(actions, name)
		}
	}
	return actions
}
