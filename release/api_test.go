package release

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "write api/apidiff.txt again")

// public are the packages whose exported API is a contract, as in api/go.txt.
var public = []string{"./pkg/...", "./infra/nodepool"}

// api/apidiff.txt lists the incompatible and compatible changes of the exported API since the base, which is the commit that the first line of the
// file names. The workflow clones the whole history, so the test is never skipped there.
func TestAPIChanges(t *testing.T) {
	const file = "../api/apidiff.txt"
	head, was, _ := strings.Cut(string(read(t, file)), "\n")
	base, ok := strings.CutPrefix(head, "base ")
	if !ok {
		t.Fatalf("%s begins with %q, want \"base \" and a commit or a tag", file, head)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "rev-parse", "--is-shallow-repository").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) == "true" {
		t.Skipf("needs the history of the repository (in a shallow clone: git fetch --unshallow --tags): %s", out)
	}
	changes, err := apiChanges(t.Context(), "..", base, t.TempDir(), public)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+"\n"+changes), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if changes != was {
		t.Errorf("the exported API differs from %s as follows:\n%s\n%s lists:\n%s\nif that is intended, run make api, and add the line to CHANGELOG.md that TestBaselinesInChangelog of internal/docs asks for", base, changes, file, was)
	}
}

// apiChanges compares an alias of an internal type, and the types that a program can reach from it, as it compares public types.
func TestAPIChangesAreFound(t *testing.T) {
	const api = `// Package api is public.
package api

import "example.org/m/internal/inside"

type Card = inside.Card

type Sealed interface {
	Open()
	seal()
}

type Free interface{ Open() }

func Kept() {}

func Dropped() {}
`
	const inside = `// Package inside has what the public package renames.
package inside

import "iter"

type Card struct{ Suits iter.Seq[*Suit] }

func (*Card) Turn() {}

type Suit struct{ Name string }

type Hidden struct{ Name string }
`
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		args = append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"}, args...)
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write("go.mod", "module example.org/m\n\ngo 1.26\n")
	write("pkg/api/api.go", api)
	write("pkg/gone/gone.go", "// Package gone is public.\npackage gone\n")
	write("internal/inside/inside.go", inside)
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "base")
	base := git("rev-parse", "HEAD")

	changes := func(base string) (string, error) {
		return apiChanges(t.Context(), dir, base, t.TempDir(), []string{"./pkg/..."})
	}
	if got, err := changes(base); err != nil || got != "" {
		t.Errorf("without a change: got %q, %v, want none", got, err)
	}
	if _, err := changes(strings.Repeat("0", 40)); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("with a base that the clone lacks: got %v, want the remedy", err)
	}

	write("pkg/api/api.go", strings.NewReplacer("func Dropped() {}", "func Added() {}", "\tOpen()\n", "\tOpen()\n\tShut()\n", "{ Open() }", "{ Open(); Shut() }").Replace(api))
	write("pkg/added/added.go", "// Package added is public.\npackage added\n")
	write("internal/inside/inside.go", strings.NewReplacer("Turn", "Flip", "Name string", "Color int").Replace(inside))
	if err := os.RemoveAll(filepath.Join(dir, "pkg/gone")); err != nil {
		t.Fatal(err)
	}
	const want = `Incompatible changes:
- ./pkg/api.Dropped: removed
- ./pkg/api.Free.Shut: added
- package example.org/m/pkg/gone: removed
- ./internal/inside.(*Card).Turn: removed
- ./internal/inside.Suit.Name: removed
Compatible changes:
- ./pkg/api.Added: added
- ./pkg/api.Sealed.Shut: added
- package example.org/m/pkg/added: added
- ./internal/inside.(*Card).Flip: added
- ./internal/inside.Suit.Color: added
`
	if got, err := changes(base); err != nil || got != want {
		t.Errorf("got %v and\n%s\nwant\n%s", err, got, want)
	}
}

// apiChanges reports how the exported API of the packages in the folder root differs from that of the commit base. It unpacks the base into the
// folder temp. An alias of a type of an internal package makes that type public. So apiChanges also reports the changes of that type, and of the
// types that a program can reach from it.
func apiChanges(ctx context.Context, root, base, temp string, patterns []string) (string, error) {
	if out, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--verify", "--quiet", base+"^{commit}").CombinedOutput(); err != nil {
		return "", fmt.Errorf("the base %s of the API is not in this clone: if the clone is shallow, run git fetch --unshallow --tags; else name another base in the first line of api/apidiff.txt: %w %s", base, err, out)
	}
	archive := filepath.Join(temp, "base.tar")
	if out, err := exec.CommandContext(ctx, "git", "-C", root, "archive", "--output", archive, base).CombinedOutput(); err != nil {
		return "", fmt.Errorf("git archive %s: %w\n%s", base, err, out)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", temp).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w\n%s", err, out)
	}
	before, err := load(ctx, temp, patterns)
	if err != nil {
		return "", fmt.Errorf("base %s: %w", base, err)
	}
	after, err := load(ctx, root, patterns)
	if err != nil {
		return "", err
	}
	report := apidiff.ModuleChanges(before, after)

	reached := map[*types.TypeName]bool{}
	for _, p := range before.Packages {
		for _, name := range p.Scope().Names() {
			if obj := p.Scope().Lookup(name); obj.Exported() {
				reach(before, obj.Type(), reached)
			}
		}
	}
	var inside, heads []string
	for name := range reached {
		if path := "." + strings.TrimPrefix(name.Pkg().Path(), before.Path); !slices.Contains(before.Packages, name.Pkg()) {
			inside = append(inside, path)
			heads = append(heads, regexp.QuoteMeta(path+".")+`(\(?\*)?`+name.Name()+`\b`)
		}
	}
	if len(inside) > 0 {
		slices.Sort(inside)
		inside = slices.Compact(inside)
		if before, err = load(ctx, temp, inside); err != nil {
			return "", fmt.Errorf("base %s: %w", base, err)
		}
		inside = slices.DeleteFunc(inside, func(path string) bool { // a package that is gone: then all aliases of its types have changed
			_, err := os.Stat(filepath.Join(root, path))
			return err != nil
		})
		if after, err = load(ctx, root, inside); err != nil {
			return "", err
		}
		about := regexp.MustCompile("^(" + strings.Join(heads, "|") + ")")
		for _, change := range apidiff.ModuleChanges(before, after).Changes {
			if about.MatchString(change.Message) {
				report.Changes = append(report.Changes, change)
			}
		}
	}
	return report.String(), nil
}

// load returns the types of the packages of the module in dir.
func load(ctx context.Context, dir string, patterns []string) (*apidiff.Module, error) {
	loaded, err := packages.Load(&packages.Config{Context: ctx, Mode: packages.LoadTypes | packages.NeedModule, Dir: dir}, patterns...)
	if err != nil {
		return nil, err
	}
	var m apidiff.Module
	for _, p := range loaded {
		for _, e := range p.Errors {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.ID, e))
		}
		if err == nil {
			m.Path = p.Module.Path
			m.Packages = append(m.Packages, p.Types)
		}
	}
	return &m, err
}

// reach adds the types of the module that a program can get from a value of the type t.
func reach(m *apidiff.Module, t types.Type, reached map[*types.TypeName]bool) {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok {
		for arg := range named.TypeArgs().Types() {
			reach(m, arg, reached)
		}
		named = named.Origin()
		name := named.Obj()
		if name.Pkg() == nil || !strings.HasPrefix(name.Pkg().Path(), m.Path+"/") || reached[name] {
			return
		}
		reached[name] = true
		for method := range named.Methods() {
			if method.Exported() {
				reach(m, method.Type(), reached)
			}
		}
		t = named.Underlying()
	}
	switch t := t.(type) {
	case *types.Map:
		reach(m, t.Key(), reached)
		reach(m, t.Elem(), reached)
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel
		reach(m, t.Elem(), reached)
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				reach(m, v.Type(), reached)
			}
		}
	case *types.Interface:
		for method := range t.Methods() {
			if method.Exported() {
				reach(m, method.Type(), reached)
			}
		}
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() || field.Embedded() {
				reach(m, field.Type(), reached)
			}
		}
	}
}
