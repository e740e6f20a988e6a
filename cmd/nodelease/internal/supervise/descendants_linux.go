package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// process is an entry of the process table.
type process struct {
	pid, parent int
	started     string // when it was started, in clock ticks since the boot
}

// signalBelow sends a signal to every living descendant of root. It may miss a process that
// is being started meanwhile, so the caller calls it again until the kernel reports that no
// process is left.
func signalBelow(root int, sig syscall.Signal) {
	for _, p := range below(root) {
		// The handle refers to one process, even if its pid is reused later. If that
		// process was started at the same time, the pid was not reused before. Its parent
		// says nothing, since a parent that was signalled first may have died already.
		h, err := os.FindProcess(p.pid)
		if err != nil {
			continue
		}
		if now, ok := look(p.pid); ok && now.started == p.started {
			_ = h.Signal(sig)
		}
		_ = h.Release()
	}
}

// below returns every living descendant of root, parents before their children.
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

// look reads the entry of one process. It returns false if the process is dead, whether or
// not it has been reaped.
func look(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The format is: pid (name) state parent …, where the name may contain any characters.
	// The start time is field 22, the pid being field 1.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || bytes.ContainsAny(fields[0], "ZX") {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return process{pid, parent, string(fields[19])}, err == nil
}
