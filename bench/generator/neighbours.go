package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// startNeighbours starts n processes, each of which uses up a core, because generators are
// also used on busy machines.
func startNeighbours(n int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return stop, err
	}
	for range n {
		c := exec.Command(self, "-spin")
		c.Env = append(os.Environ(), "GOMAXPROCS=1")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // ends the neighbour even if this process is killed
		if err := c.Start(); err != nil {
			stop()
			return stop, fmt.Errorf("a busy neighbour: %w", err)
		}
		all = append(all, c)
	}
	return stop, nil
}

func spinForever() {
	for i := 0; ; i++ {
		_ = i
	}
}
