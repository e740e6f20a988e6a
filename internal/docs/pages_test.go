package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the texts of all pages of the project, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name[0] == '.' || name == "node_modules" || name == "cdk.out" || name == "dist"):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			text, err := os.ReadFile(path)
			all[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(all) < 30 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// anchorsOf returns the headings of a page, as links name them.
func anchorsOf(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(strings.TrimSpace(name), " ", "-")] = true
	}
	return anchors
}

// Links inside the repository lead to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if text, ok := all[target]; anchor != "" && (!ok || !anchorsOf(text)[anchor]) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// A Go file that a page names exists, in whatever folder.
func TestGoFilesOnPages(t *testing.T) {
	files := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		files[filepath.Base(path)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b([a-z][a-z0-9_]*\.go)\b(\.dev)?`)
	for page, text := range pages(t) {
		for _, m := range name.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if !files[m[1]] && m[2] == "" && filepath.Base(page) != "CHANGELOG.md" {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

// Each name after -run, -bench or -fuzz in a page's commands is the name of a test
// in one of the packages that the command names.
func TestCommandsFindTheirTests(t *testing.T) {
	command := regexp.MustCompile("(?:cd ([\\w/-]+) && )?(?:^|[^\\w])go test ([^`\n]*)")
	choice := regexp.MustCompile(`-(run|bench|fuzz)[ =]'?([^' ` + "`" + `]+)`)
	where := regexp.MustCompile(`(?:^| )(\./[\w./]*)`)
	found := 0
	for page, text := range pages(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			var names string
			for _, pkg := range where.FindAllStringSubmatch(m[2], -1) {
				names += testsIn(t, filepath.Join(root, m[1], strings.TrimSuffix(pkg[1], "...")))
			}
			for _, c := range choice.FindAllStringSubmatch(m[2], -1) {
				for alternative := range strings.SplitSeq(strings.ReplaceAll(c[2], `\|`, "|"), "|") {
					name, _, _ := strings.Cut(strings.Trim(alternative, "^$()."), "/")
					if name == "" { // -run '^$': none
						continue
					}
					found++
					kind := map[string]string{"run": "(Test|Fuzz|Example)", "bench": "Benchmark", "fuzz": "Fuzz"}[c[1]]
					if !regexp.MustCompile(`(?m)^func `+kind+`\w*\(`).MatchString(names) || !regexp.MustCompile(`(?m)^func \w*`+name).MatchString(names) {
						t.Errorf("%s: go test %s: no %s in these packages", page, m[2], name)
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d names", found)
	}
}

// testsIn returns the first lines of the test functions of the package in a directory.
func testsIn(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`(?m)^func (?:Test|Fuzz|Benchmark|Example)\w*\(`).FindAllString(string(text), -1) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// S1 does not cover IDs that a program makes itself from the variable of exec. The page of
// the variable and the page of the limits of the promises both state this.
func TestOwnIDsAreNotCovered(t *testing.T) {
	for page, want := range map[string]string{
		"docs/exec.md":       "**its IDs are not covered by [S1](guarantees.md)**",
		"docs/guarantees.md": "| IDs that a program generates itself from a node ID (`NODELEASE_NODE_ID` of [`exec`](exec.md#ids-that-the-program-generates-itself), `Agent.NodeID`) | **not covered**",
	} {
		if !strings.Contains(read(t, page), want) {
			t.Errorf("%s does not say %q", page, want)
		}
	}
}
