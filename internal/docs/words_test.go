package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// product calls fn with each Go file of the product, but not with tests and test kits.
func product(t *testing.T, fn func(path string, file *ast.File)) {
	t.Helper()
	files := 0
	for _, dir := range []string{"pkg/*", "pkg/*/*", "internal/protocol", "internal/tenure", "internal/ecs", "internal/app/*", "functions/*", "cmd/nodelease", "cmd/nodelease/internal/*"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") || isKit(filepath.ToSlash(filepath.Dir(path))) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files++
			fn(strings.TrimPrefix(filepath.ToSlash(path), root+"/"), file)
		}
	}
	if files < 100 {
		t.Fatalf("found %d files of the product, want all", files)
	}
}

// literal returns the text of a string literal; empty if it is none.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value)
		return text
	}
	return ""
}

// keysOf returns the keys that a call of slog, or of a Logger, writes.
func keysOf(call *ast.CallExpr) (keys []string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first := -1 // argument that is a key
	receiver, _ := f.X.(*ast.Ident)
	switch f.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
		if len(call.Args) > 0 && literal(call.Args[0]) != "" {
			first = 1
		}
	case "Log":
		if len(call.Args) > 2 && literal(call.Args[2]) != "" {
			first = 3
		}
	case "With":
		first = 0
	case "String", "Int", "Int64", "Bool", "Duration", "Any", "Float64", "Time":
		if receiver != nil && receiver.Name == "slog" {
			return []string{literal(call.Args[0])}
		}
	}
	for i := first; first >= 0 && i < len(call.Args); i += 2 {
		if key := literal(call.Args[i]); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// explains checks that a page has each name in backticks.
func explains(t *testing.T, page string, found map[string]string) {
	t.Helper()
	text := read(t, page)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s has %q, and %s does not explain it", found[name], name, page)
		}
	}
}

// Every key of a log line is explained in docs/metrics.md, and consists of small
// letters, digits and underscores.
func TestLogKeys(t *testing.T) {
	found := map[string]string{}
	product(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, key := range keysOf(call) {
					found[key] = path
				}
			}
			return true
		})
	})
	if len(found) < 30 {
		t.Fatalf("found %d keys, want those of all log lines: %v", len(found), found)
	}
	for key, path := range found {
		if !regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`).MatchString(key) {
			t.Errorf("%s logs the key %q, want small letters and underscores", path, key)
		}
	}
	explains(t, "docs/metrics.md", found)
}

// Every attribute of the table's items must be explained in docs/items.md. A test in
// internal/protocol checks those of leases and pools; this test checks those of clusters
// and discovery.
func TestAttributes(t *testing.T) {
	found := map[string]string{}
	product(t, func(path string, file *ast.File) {
		rooms := strings.HasPrefix(path, "pkg/discovery/") || strings.HasPrefix(path, "pkg/cluster/dynamocoordinator/")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				if n.Tag != nil {
					tag, _ := strconv.Unquote(n.Tag.Value)
					if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("dynamodbav"), ","); name != "" && name != "-" {
						found[name] = path
					}
				}
			case *ast.BasicLit:
				text := literal(n)
				if !rooms || !strings.HasPrefix(text, "SET ") && !strings.HasPrefix(text, "REMOVE ") {
					break
				}
				for _, word := range regexp.MustCompile(`(?:^|[^:\w])([a-z]\w*)`).FindAllStringSubmatch(text, -1) {
					if word[1] != "if_not_exists" {
						found[word[1]] = path
					}
				}
			}
			return true
		})
	})
	if len(found) < 50 {
		t.Fatalf("found %d attributes, want those of all items: %v", len(found), found)
	}
	explains(t, "docs/items.md", found)
}

// Every gauge of a pool is explained in docs/metrics.md; a test of leaseotel compares
// the gauges of a process with that page.
func TestGauges(t *testing.T) {
	found := map[string]string{}
	product(t, func(path string, file *ast.File) {
		if path != "internal/app/handler/poolmetric.go" {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 1 {
				if f, ok := call.Fun.(*ast.Ident); ok && (f.Name == "count" || f.Name == "datum") && literal(call.Args[0]) != "" {
					found[literal(call.Args[0])] = path
				}
			}
			return true
		})
	})
	if len(found) < 10 {
		t.Fatalf("found %d gauges, want those of poolmetric: %v", len(found), found)
	}
	explains(t, "docs/metrics.md", found)
}

// Words that had two meanings and have been replaced.
var replaced = map[string]string{
	"ReservedLow": "ExcludeBelow", "reserved_low": "exclude_below", "relayouted": "stale",
}

// Replaced words do not come back.
func TestReplacedWords(t *testing.T) {
	product(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			word := ""
			switch n := n.(type) {
			case *ast.Ident:
				word = n.Name
			case *ast.BasicLit:
				word = literal(n)
			}
			if now := replaced[word]; now != "" {
				t.Errorf("%s has %s: write %s", path, word, now)
			}
			return true
		})
	})
}
