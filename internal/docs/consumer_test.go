package docs

import (
	"archive/zip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const released = "v0.0.1" // the version under which the tests publish this checkout

var strangers = flag.Bool("strangers", false, "install this module like an outsider, with an empty module cache")

func asStranger(t *testing.T) {
	t.Helper()
	if !*strangers && !*update {
		t.Skip("NOT TESTED: installing the module with an empty module cache, which takes minutes. To test it: scripts/test.sh release")
	}
}

// goIn runs the go command with additional variables and returns the lines of its output.
func goIn(t *testing.T, dir string, env []string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var refused strings.Builder
	cmd.Stderr = &refused
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, refused.String())
	}
	return strings.Fields(string(out))
}

// publish writes this checkout as a module to a proxy in a folder, as a release would be.
func publish(t *testing.T, proxy string) {
	t.Helper()
	name := strings.TrimSuffix(module, "/")
	dir := filepath.Join(proxy, name, "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("NOT TESTED: installing the module, which takes a git checkout: %v", err)
	}
	files := strings.Split(strings.Trim(string(out), "\x00"), "\x00")
	var inner []string // nested modules are not part of this one
	for _, f := range files {
		if d, ok := strings.CutSuffix(f, "/go.mod"); ok {
			inner = append(inner, d+"/")
		}
	}
	archive, err := os.Create(filepath.Join(dir, released+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(archive)
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(root, f))
		if err != nil || !info.Mode().IsRegular() || slices.ContainsFunc(inner, func(d string) bool { return strings.HasPrefix(f, d) }) {
			continue // removed and not yet committed, or a link
		}
		entry, err := w.Create(name + "@" + released + "/" + f)
		if err == nil {
			_, err = entry.Write([]byte(read(t, f)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{released + ".mod": read(t, "go.mod"), released + ".info": `{"Version":"` + released + `"}`, "list": released + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// stranger is the environment of somebody with an empty module cache, who gets this
// checkout from a proxy in a folder. Its dependencies come from this machine's module
// cache if they are there.
func stranger(t *testing.T) []string {
	t.Helper()
	proxy := t.TempDir()
	publish(t, proxy)
	ours := goIn(t, root, nil, "env", "GOMODCACHE", "GOPROXY")
	return []string{
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "modules"),
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(ours[0], "cache", "download") + "," + ours[1],
		// Without the paths of the module cache, packages compiled for one build are reused in the next.
		"GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GOSUMDB=off", "GONOPROXY=none", "GOPRIVATE=",
	}
}

// A stranger installs the command line, which then prints its version.
func TestGoInstall(t *testing.T) {
	asStranger(t)
	bin := t.TempDir()
	goIn(t, t.TempDir(), append(stranger(t), "GOBIN="+bin), "install", module+"cmd/nodelease@"+released)
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "nodelease"), "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "nodelease "+released+", go") {
		t.Errorf("--version: %q, %v", out, err)
	}
}

// modulesOf lists modules, with all modules of the AWS SDK as one.
func modulesOf(modules []string) string {
	slices.Sort(modules)
	var names []string
	sdk := 0
	for _, m := range slices.Compact(modules) {
		switch {
		case strings.HasPrefix(m, "github.com/aws/aws-sdk-go-v2"), m == "github.com/aws/smithy-go":
			sdk++
		case m+"/" != module:
			names = append(names, "`"+m+"`")
		}
	}
	if sdk > 0 {
		names = append([]string{fmt.Sprintf("the AWS SDK (%d modules)", sdk)}, names...)
	}
	if len(names) == 0 {
		return "none: the standard library only"
	}
	return strings.Join(names, ", ")
}

// A stranger with an empty module cache and an empty go.sum gets each public package
// through a proxy. The page lists the modules that the stranger then has.
func TestConsumers(t *testing.T) {
	asStranger(t)
	env := stranger(t)
	packages, order := map[string][]string{}, []string(nil) // by their modules
	for _, path := range goIn(t, root, nil, "list", "./pkg/...", "./infra/nodepool") {
		if strings.Contains(path, "/internal/") {
			continue
		}
		dir := t.TempDir()
		for file, text := range map[string]string{
			"go.mod": "module example.org/stranger\n\ngo 1.26.0\n", "main.go": "package main\n\nimport _ \"" + path + "\"\n\nfunc main() {}\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		goIn(t, dir, env, "get", path+"@"+released)
		goIn(t, dir, env, "build", "-o", os.DevNull, ".")
		modules := goIn(t, dir, env, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
		with := modulesOf(modules)
		if packages[with] == nil {
			order = append(order, with)
		}
		packages[with] = append(packages[with], "`"+strings.TrimPrefix(path, module)+"`")
	}
	page := "| package | modules that a program gets with it |\n|---|---|\n"
	for _, with := range order {
		page += fmt.Sprintf("| %s | %s |\n", strings.Join(packages[with], ", "), with)
	}
	generated(t, "docs/dependencies.md", "consumers", page)
}
