// Command mutants weakens the protocol's conditions and guards one at a time
// and reports which test notices. A mutant that nobody notices is a condition
// without a test, and makes the command fail.
//
//	go run ./scripts/mutants [-run substring]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
)

// mutant replaces one piece of one file.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    string // packages whose tests should notice
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

func main() {
	only := flag.String("run", "", "only mutants whose name contains this")
	flag.Parse()
	survivors, err := run(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if survivors > 0 {
		fmt.Fprintf(os.Stderr, "mutants: %d survived\n", survivors)
		os.Exit(1)
	}
}

func run(only string) (survivors int, err error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(out, "mutant\tcaught by\tseconds")
	for _, m := range mutants {
		if !strings.Contains(m.name, only) {
			continue
		}
		began := time.Now()
		caught, err := m.try(dir)
		if err != nil {
			return survivors, fmt.Errorf("%s: %w", m.name, err)
		}
		if caught == "" {
			survivors++
			caught = "NOBODY"
		}
		fmt.Fprintf(out, "%s\t%s\t%.0f\n", m.name, caught, time.Since(began).Seconds())
		out.Flush()
	}
	return survivors, nil
}

// try runs the tests with the mutant laid over the real file, and gives the
// first tests that failed.
func (m mutant) try(dir string) (string, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if strings.Count(string(src), m.old) != 1 {
		return "", fmt.Errorf("%q stands %d times in %s, not once: bring the mutant up to date", m.old, strings.Count(string(src), m.old), m.file)
	}
	mutated := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o600); err != nil {
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
	args := append([]string{"test", "-overlay", overlay, "-timeout", "120s", "-count", "1"}, strings.Fields(m.tests)...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CI=") // the embedded server is enough here
	text, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if strings.Contains(string(text), "[build failed]") || strings.Contains(string(text), "[setup failed]") {
		fmt.Fprintf(os.Stderr, "%s does not compile:\n%s\n", m.name, text)
		return "", nil
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
