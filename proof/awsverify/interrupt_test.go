package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// asInterrupted makes the test's own binary wait as the program does: for the first interrupt, and then in a deletion that takes long.
const asInterrupted = "TEST_AS_INTERRUPTED"

func TestMain(m *testing.M) {
	if os.Getenv(asInterrupted) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := untilInterrupted()
	defer stop()
	fmt.Println("checks")
	<-ctx.Done()
	fmt.Println("deletion")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

// The second interrupt ends a deletion that takes long.
func TestSecondInterrupt(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), asInterrupted+"=1")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(10*time.Second, func() { _ = in.Close() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if err := c.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Wait() // "signal: interrupt"
		late.Stop()
		if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != s {
			t.Errorf("after two signals %v the process ended as %v, want ended by the second", s, c.ProcessState)
		}
	}
}

// An interrupt ends the question whether to create the resources, and creates nothing, even if somebody types yes then.
func TestInterruptedQuestion(t *testing.T) {
	in, typed := io.Pipe()
	defer in.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	answers := make(chan bool, 1)
	go func() { answers <- confirmed(ctx, in, io.Discard) }()
	interrupt()
	select {
	case yes := <-answers:
		if yes {
			t.Error("an interrupt was taken for the answer yes")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the question waits for its answer although it was interrupted")
	}
	go func() { _, _ = typed.Write([]byte("yes\n")) }()
	if confirmed(ctx, in, io.Discard) {
		t.Error("a yes after an interrupt creates the resources")
	}
}
