package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// marker is a variable in the environment of all processes of a test.
func marker(t *testing.T) string { return "NODELEASE_TEST=" + t.Name() }

// checkGone fails unless all processes of a test are gone, or go soon: the
// kernel ends them, and nobody tells when it has.
func checkGone(t *testing.T) {
	limit := time.After(10 * time.Second)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		left := marked(t)
		if len(left) == 0 {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Errorf("processes that stayed: %q", left)
			return
		}
	}
}

// marked finds the processes of a test; those that are dead have no environment.
func marked(t *testing.T) (commands []string) {
	mark := append([]byte(marker(t)), 0)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil && bytes.Contains(env, mark) {
			command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			commands = append(commands, dir+" "+string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return commands
}
