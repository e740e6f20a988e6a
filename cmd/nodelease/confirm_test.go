package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// A command that waits for its user ends when its time is over, as every command does.
func TestQuestionEndsWithTheCommand(t *testing.T) {
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "2"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range []string{"raise --timeout 300ms", "id - --timeout 300ms"} {
		stdin, typed := io.Pipe()
		var stdout, stderr bytes.Buffer
		done := make(chan int, 1)
		go func() { done <- run(append(strings.Fields(args), flags...), stdin, &stdout, &stderr) }()
		select {
		case code := <-done:
			if code != codeNoAnswer || !strings.Contains(stderr.String(), "not done within --timeout 300ms") {
				t.Errorf("%s: got exit code %d, %s, want %d and the reason", args, code, stderr.String(), codeNoAnswer)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it still waits", args)
		}
		if err := typed.Close(); err != nil {
			t.Error(err)
		}
	}
}
