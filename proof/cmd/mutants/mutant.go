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
	// tests are packages whose tests should notice, the fast ones first; or worlds that
	// should, as "world:" parts ":" seeds ":" hours, as the flags of package sim have them.
	tests string
}

// simulation is the package of the worlds.
const simulation = "./proof/internal/sim"

// source is the file with the piece replaced, which must occur in it once.
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

// runs reports whether one of the tests that noticed is in the mutant's packages.
func (m mutant) runs(noticed string) bool {
	for _, pkg := range strings.Fields(m.tests) {
		if strings.HasPrefix(pkg, "world:") {
			pkg = simulation
		}
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

// try runs the tests with the mutant laid over the real file, and returns the
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

// worldNotices runs worlds of the composed simulation, and returns the first that broke
// a promise, with its seed and for how long its agents had lived.
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

// notices runs the tests of one package, and returns those that failed.
func notices(overlay, pkg string) (string, error) {
	_, caught, err := goTest(overlay, pkg, "-failfast")
	return caught, err
}

// goTest returns the output of a package's tests, and those that failed.
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
