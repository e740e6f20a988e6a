package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// process is one line of the process table.
type process struct {
	pid, parent int
}

// signalBelow sends a signal to every living process below root. One that is being
// started meanwhile, or whose parent dies meanwhile, may be missed: the caller
// kills again until the kernel reports that none is left.
func signalBelow(root int, sig syscall.Signal) {
	for _, p := range below(root) {
		// The handle names this very process; only if it is still the child of that
		// parent, its number has not been given to another in between.
		h, err := os.FindProcess(p.pid)
		if err != nil {
			continue
		}
		if now, ok := look(p.pid); ok && now.parent == p.parent {
			_ = h.Signal(sig)
		}
		_ = h.Release()
	}
}

// below is every living process below root, parents before their children.
func below(root int) (found []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]process{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if p, ok := look(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	for queue := children[root]; len(queue) > 0; {
		found = append(found, queue...)
		var next []process
		for _, p := range queue {
			next = append(next, children[p.pid]...)
		}
		queue = next
	}
	return found
}

// look reads one process's line; not ok if it is dead, buried or not.
func look(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// pid (name) state parent …; the name may have any characters in it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || bytes.ContainsAny(fields[0], "ZX") {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return process{pid, parent}, err == nil
}
