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
	// tests lists the packages whose tests should notice the mutant, the fastest first.
	// Worlds that should notice it have the form "world:" parts ":" seeds ":" hours, as in
	// the flags of package sim.
	tests string
}

// simulation is the package that runs the worlds.
const simulation = "./proof/internal/sim"

// source returns the file with old replaced by new. The file must contain old exactly once.
func (m mutant) source() (string, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", fmt.Errorf("%q occurs %d times in %s, not once: bring the mutant in proof/cmd/mutants up to date", m.old, n, m.file)
	}
	return strings.Replace(string(src), m.old, m.new, 1), nil
}

// runs reports whether at least one of the tests in noticed, a list separated by commas, is
// in the mutant's packages.
func (m mutant) runs(noticed string) bool {
	for _, pkg := range strings.Fields(m.tests) {
		if strings.HasPrefix(pkg, "world:") {
			pkg = simulation
		}
		files, _ := filepath.Glob(filepath.Join(pkg, "*_test.go")) // cannot fail: the pattern is valid
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

// try runs the tests with the mutant in place of the real file. It returns the names of the
// tests that failed first, or "" if none failed.
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
	for _, tests := range strings.Fields(m.tests) {
		notices := notices
		if strings.HasPrefix(tests, "world:") {
			notices = worldNotices
		}
		if caught, err := notices(overlay, tests); caught != "" || err != nil {
			return caught, err
		}
	}
	return "", nil
}

// worldNotices runs worlds of the simulation. It describes the first world in which a
// promise was broken: its seed and the number of agent hours until then.
func worldNotices(overlay, world string) (string, error) {
	_, rest, _ := strings.Cut(world, ":")
	parts, rest, _ := strings.Cut(rest, ":")
	seeds, hours, _ := strings.Cut(rest, ":")
	for seed := range strings.SplitSeq(seeds, ",") {
		text, caught, err := goTest(overlay, simulation, "-run", "TestWorld$", "-args", "-seeds", "1", "-parts", parts, "-seed", seed, "-hours", hours)
		if caught == "" && err == nil {
			continue
		}
		if after := lived.FindStringSubmatch(text); caught != "" && after != nil {
			caught += fmt.Sprintf(", %s: seed %s after %s agent hours", parts, seed, after[1])
			fmt.Fprintf(os.Stderr, "%.300s\n", after[0])
		} else if strings.Contains(text, "blocked goroutines remain") {
			caught += fmt.Sprintf(", %s: seed %s leaves goroutines behind", parts, seed)
		}
		return caught, err
	}
	return "", nil
}

var lived = regexp.MustCompile(`after ([0-9.]+) agent hours: .*`)

// notices runs the tests of one package, and returns the names of those that failed.
func notices(overlay, pkg string) (string, error) {
	_, caught, err := goTest(overlay, pkg, "-failfast")
	return caught, err
}

// goTest runs a package's tests. It returns their output, and the names of up to three that
// failed.
func goTest(overlay, pkg string, args ...string) (text, caught string, err error) {
	cmd := exec.Command("go", append([]string{"test", "-overlay", overlay, "-timeout", "10m", "-count", "1", "-vet=off", pkg}, args...)...)
	cmd.Env = append(os.Environ(), "CI=", "NODELEASE_REQUIRE_EMULATORS=") // the embedded server is enough here
	out, err := cmd.CombinedOutput()
	text = string(out)
	if err == nil {
		return text, "", nil
	}
	if strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]") {
		return text, "", fmt.Errorf("it does not compile:\n%s", text)
	}
	var names []string
	for _, f := range failed.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(f[1], "/") {
			names = append(names, f[1])
		}
	}
	if len(names) == 0 {
		names = []string{"time-out or panic"}
	}
	return text, strings.Join(names[:min(len(names), 3)], ", "), nil
}
