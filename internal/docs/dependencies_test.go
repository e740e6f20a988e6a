package docs

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rows returns the rows of a page's tables that have the given number of columns, as cells
// without their backticks.
func rows(page string, columns int) (found [][]string) {
	for line := range strings.SplitSeq(page, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != columns {
			continue
		}
		for i, c := range cells {
			cells[i] = strings.Trim(c, " `")
		}
		found = append(found, cells)
	}
	return found
}

// direct returns the modules that a go.mod names for its own code.
func direct(t *testing.T, goMod string) (modules []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, goMod)).Output()
	var parsed struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err == nil {
		err = json.Unmarshal(out, &parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range parsed.Require {
		if !r.Indirect && r.Path+"/" != module {
			modules = append(modules, r.Path)
		}
	}
	return modules
}

func npm(t *testing.T) (versions map[string]string) {
	t.Helper()
	var parsed struct{ DevDependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, "package.json")), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed.DevDependencies
}

// others returns the packages of the clients, and the tools that scripts install.
func others(t *testing.T) (names []string) {
	t.Helper()
	var tests struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, "clients/javascript/test/types/package.json")), &tests); err != nil {
		t.Fatal(err)
	}
	names = slices.Collect(maps.Keys(tests.Dependencies))
	for pattern, name := range map[string]*regexp.Regexp{
		"clients/*/pom.xml":                    regexp.MustCompile(`<dependency>\s*<groupId>([^<]+)</groupId><artifactId>([^<]+)</artifactId>`),
		"clients/java/*/pom.xml":               regexp.MustCompile(`<dependency>\s*<groupId>([^<]+)</groupId><artifactId>([^<]+)</artifactId>`),
		"clients/python/tests/requirements.in": regexp.MustCompile(`(?m)^([\w-]+)`),
		"clients/python/pyproject.toml":        regexp.MustCompile(`(?m)^(?:requires|dependencies) = \["([\w-]+)`),
		"infra/lint/requirements.txt":          regexp.MustCompile(`(?m)^(cfn-lint|parliament)==`),
		"scripts/uv.txt":                       regexp.MustCompile(`(?m)^(uv)==`),
		"localstack/requirements.txt":          regexp.MustCompile(`(?m)^(localstack-core)==`),
		"scripts/*.sh":                         regexp.MustCompile(`(?m)(?:go install "|npm install .* ")([\w./-]+)@`),
		"Makefile":                             regexp.MustCompile(`go run ([\w./-]+)@`),
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		found := 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				found++
				if m[1] != "dev.nodelease" { // our own
					names = append(names, command.ReplaceAllString(strings.Join(m[1:], ":"), ""))
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: found no dependency", pattern)
		}
	}
	return names
}

// command is the path of a command in its module.
var command = regexp.MustCompile(`/cmd/.*$`)

// Each direct dependency has one row in docs/dependencies.md with every cell filled in, and
// each row belongs to a dependency.
func TestDependenciesListed(t *testing.T) {
	wanted := map[string]bool{}
	for _, goMod := range []string{"go.mod", "bench/go.mod", "bench/lease/go.mod", "proof/faults/go.mod", "proof/awsverify/go.mod", "localstack/e2e/go.mod", "release/go.mod"} {
		for _, m := range direct(t, goMod) {
			wanted[m] = true
		}
	}
	for name := range npm(t) {
		wanted[name] = true
	}
	for _, name := range others(t) {
		wanted[name] = true
	}
	listed := map[string]bool{}
	for _, row := range rows(read(t, "docs/dependencies.md"), 4) {
		switch name := row[0]; {
		case slices.Contains(row, ""):
			t.Errorf("%s: got %q, want a reason, a licence and a maintainer", name, row)
		case listed[name]:
			t.Errorf("%s is listed twice", name)
		case !wanted[name]:
			t.Errorf("%s is listed, but no go.mod or package.json requires it directly: remove its row", name)
		}
		listed[row[0]] = true
	}
	for name := range wanted {
		if !listed[name] {
			t.Errorf("%s is not in docs/dependencies.md: add its reason, its licence, and its maintainer", name)
		}
	}
}

// The first words of each licence that this project's dependencies have.
var licences = map[string]*regexp.Regexp{
	"Apache-2.0":   regexp.MustCompile(`Apache License\s+Version 2\.0`),
	"MIT":          regexp.MustCompile(`Permission is hereby granted, free\s+of charge`),
	"BSD-3-Clause": regexp.MustCompile(`(?s)Redistribution and use.*Neither the name`),
	"MPL-2.0":      regexp.MustCompile(`Mozilla Public License(?i:, version| version) 2\.0`),
	"BSD-2-Clause": regexp.MustCompile(`Redistribution and use`),
}

// Each licence on the page is the one that the module has.
func TestDependenciesLicences(t *testing.T) {
	page := map[string]string{}
	for _, row := range rows(read(t, "docs/dependencies.md"), 4) {
		page[row[0]] = row[2]
	}
	modules := direct(t, "go.mod")
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-m", "-f", "{{.Path}} {{.Dir}}"}, modules...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if dir == "" {
			continue // nothing that was built here needed it
		}
		files, err := filepath.Glob(filepath.Join(dir, "LICEN[SC]E*"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no licence: %v", name, err)
			continue
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if begins := licences[strings.Split(page[name], ",")[0]]; begins == nil || !begins.Match(text) {
			t.Errorf("%s: the page says %q, and its licence begins with %.200q", name, page[name], text)
		}
		seen++
	}
	if seen < 10 {
		t.Errorf("checked %d licences of %d, want at least 10", seen, len(modules))
	}
}

// Each vendored file is on the page, with the version of its package and its checksum, and
// has its licence next to it.
func TestVendoredFiles(t *testing.T) {
	const vendor = "cmd/nodelease/internal/ui/page/vendor"
	versions, listed := npm(t), map[string]bool{}
	for _, row := range rows(read(t, "docs/dependencies.md"), 5) {
		file, of, version, sum := row[0], row[1], row[2], row[4]
		listed[file] = true
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, vendor+"/"+file)))); got != sum {
			t.Errorf("%s has the checksum %s, and the page says %s", file, got, sum)
		}
		if versions[of] != version {
			t.Errorf("%s is of %s %s, and package.json has %q", file, of, version, versions[of])
		}
		if !licences[row[3]].MatchString(read(t, vendor+"/"+filepath.Dir(file)+"/LICENSE")) {
			t.Errorf("%s: its licence is not %s", file, row[3])
		}
	}
	err := filepath.WalkDir(filepath.Join(root, vendor), func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join(root, vendor)+string(filepath.Separator)))
		if err == nil && !d.IsDir() && d.Name() != "LICENSE" && !listed[name] {
			t.Errorf("%s is vendored and not in docs/dependencies.md", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
