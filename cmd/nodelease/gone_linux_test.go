package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// marker returns a variable that is in the environment of all processes of a test, and of no
// process of the same test in another run beside it.
func marker(t *testing.T) string {
	return "NODELEASE_TEST=" + t.Name() + " of " + strconv.Itoa(os.Getpid())
}

// checkGone fails unless all processes of a test are gone within ten seconds. It has to
// poll, because the kernel does not report when these processes end.
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
			t.Error("processes are left")
			showAndKill(t)
			return
		}
	}
}

// showAndKill shows the state of each process of a test, and kills them all.
func showAndKill(t *testing.T) {
	for _, dir := range marked(t) {
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		t.Logf("%s\n%s", bytes.ReplaceAll(command, []byte{0}, []byte{' '}), stat)
		threads, _ := filepath.Glob(filepath.Join(dir, "task/*/wchan"))
		for _, thread := range threads {
			wchan, _ := os.ReadFile(thread)
			t.Logf("%s: %s", thread, wchan)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "fd/*"))
		for _, file := range files {
			to, _ := os.Readlink(file)
			t.Logf("%s: %s", file, to)
		}
	}
	for _, dir := range marked(t) {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// marked finds the processes of a test, and returns their directories of /proc. Dead
// processes have no environment, so it does not find them.
func marked(t *testing.T) (found []string) {
	mark := append([]byte(marker(t)), 0)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil && bytes.Contains(env, mark) {
			found = append(found, dir)
		}
	}
	return found
}

// The processes of the same test in another checkout are not found, and so are not killed.
func TestAnotherRunIsNotThisTest(t *testing.T) {
	for pid, want := range map[int]int{os.Getpid(): 1, os.Getpid() + 1: 0} {
		child := exec.Command("cat")
		child.Env = []string{strings.TrimSuffix(marker(t), strconv.Itoa(os.Getpid())) + strconv.Itoa(pid)}
		ends, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		got := marked(t)
		_ = ends.Close()
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(got) != want {
			t.Errorf("a process of run %d: run %d found %q as its own, want %d", pid, os.Getpid(), got, want)
		}
	}
}
