package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant replaces one piece of one file.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    string // packages whose tests should notice, the fast ones first
}

// source is the file with the piece replaced, which must stand in it once.
func (m mutant) source() (string, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", fmt.Errorf("%q stands %d times in %s, not once: bring the mutant in scripts/mutants up to date", m.old, n, m.file)
	}
	return strings.Replace(string(src), m.old, m.new, 1), nil
}

// runs tells whether one of the tests that noticed is in the mutant's packages.
func (m mutant) runs(noticed string) bool {
	for _, pkg := range strings.Fields(m.tests) {
		files, _ := filepath.Glob(filepath.Join(pkg, "*_test.go")) // the pattern is sound
		for _, file := range files {
			text, err := os.ReadFile(file)
			for test := range strings.SplitSeq(noticed, ", ") {
				if err == nil && strings.Contains(string(text), "func "+test+"(") {
					return true
				}
			}
		}
	}
	return strings.Contains(noticed, "time-out")
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try runs the tests with the mutant laid over the real file, and gives the
// first tests that failed; "" if none did.
func (m mutant) try(dir string) (string, error) {
	src, err := m.source()
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(mutated, []byte(src), 0o600); err != nil {
		return "", err
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, file, mutated), 0o600); err != nil {
		return "", err
	}
	for _, pkg := range strings.Fields(m.tests) {
		if caught, err := notices(overlay, pkg); caught != "" || err != nil {
			return caught, err
		}
	}
	return "", nil
}

// notices runs the tests of one package, and gives those that failed.
func notices(overlay, pkg string) (string, error) {
	cmd := exec.Command("go", "test", "-overlay", overlay, "-timeout", "10m", "-count", "1", "-failfast", "-vet=off", pkg)
	cmd.Env = append(os.Environ(), "CI=", "NODELEASE_REQUIRE_EMULATORS=") // the embedded server is enough here
	text, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if strings.Contains(string(text), "[build failed]") || strings.Contains(string(text), "[setup failed]") {
		return "", fmt.Errorf("it does not compile:\n%s", text)
	}
	var names []string
	for _, f := range failed.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(f[1], "/") {
			names = append(names, f[1])
		}
	}
	if len(names) == 0 {
		names = []string{"time-out or panic"}
	}
	return strings.Join(names[:min(len(names), 3)], ", "), nil
}
