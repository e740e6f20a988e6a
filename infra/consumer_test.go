package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program that imports pkg/lease downloads only what pkg/lease needs. This module's go.mod also requires the CDK's modules, which are
// several hundred megabytes, but Go's pruned module graph keeps other programs from downloading them.
func TestConsumerDownloadsNoCDK(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", fmt.Sprintf("module example.org/consumer\n\ngo 1.26\n\nrequire github.com/nodelease/nodelease v0.0.0\n\nreplace github.com/nodelease/nodelease => %s\n", root))
	write("main.go", "package main\n\nimport _ \"github.com/nodelease/nodelease/pkg/lease\"\n\nfunc main() {}\n")
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write("go.sum", string(sums))

	// The module cache starts empty and is filled from this machine's cache, so whatever is in it afterwards was downloaded.
	shared := goCommand(t, root, nil, "env", "GOMODCACHE")
	cache := filepath.Join(t.TempDir(), "modules")
	env := []string{"GOMODCACHE=" + cache, "GOPROXY=file://" + filepath.Join(shared, "cache", "download"), "GOFLAGS=-modcacherw -mod=mod", "GOWORK=off", "GOSUMDB=off"}
	goCommand(t, dir, env, "list", "-deps", ".")

	var archives []string
	err = filepath.WalkDir(filepath.Join(cache, "cache", "download"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".zip") {
			archives = append(archives, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) == 0 {
		t.Fatal("nothing was downloaded: the test reads the wrong cache")
	}
	for _, a := range archives {
		for _, never := range []string{"aws-cdk-go", "constructs-go", "jsii-runtime-go", "aws-lambda-go", "spf13", "cdk-nag"} {
			if strings.Contains(a, never) {
				t.Errorf("a consumer of pkg/lease downloads %s", strings.TrimPrefix(a, cache))
			}
		}
	}
}

func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	out, err := command.Output()
	if err != nil {
		text := ""
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			text = string(exit.Stderr)
		}
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return strings.TrimSpace(string(out))
}
