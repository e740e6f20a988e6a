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

// asked is a user who answers yes, after something else has happened.
type asked struct{ first func() }

func (a asked) Read(b []byte) (int, error) {
	a.first()
	return copy(b, "y\n"), nil
}

// resize retires no node IDs that it has not shown: if someone else resizes the pool while
// the user thinks about the question, nothing is done.
func TestResizeOfAnotherSizeThanShown(t *testing.T) {
	flags := database(t, "leases")
	for _, args := range []string{"seed --size 8", "resize --size 4 --yes"} {
		if code, _, stderr := call(append(strings.Fields(args), flags...)...); code != 0 {
			t.Fatal(stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"resize", "--size", "2"}, flags...), asked{func() {
		if code, _, stderr := call(append([]string{"resize", "--size", "16"}, flags...)...); code != 0 {
			t.Error(stderr)
		}
	}}, &stdout, &stderr)
	if want := "pool orders was resized to 16 meanwhile"; code != 1 || !strings.Contains(stderr.String(), want) {
		t.Errorf("got exit code %d, %s%s, want 1 and %q", code, stdout.String(), stderr.String(), want)
	}
	if _, out, _ := call(append([]string{"list"}, flags...)...); !strings.Contains(out, "16 node IDs: 0 held, 16 free") {
		t.Errorf("got %s, want 16 node IDs in use", out)
	}
}

// A dry run of a resize counts what the resize then does, in a narrow pool too, whose width
// may have room for node IDs that nobody has created yet.
func TestDryRunOfANarrowResize(t *testing.T) {
	flags := database(t, "leases")
	if code, _, stderr := call(append([]string{"seed", "--size", "200", "--narrow"}, flags...)...); code != 0 {
		t.Fatal(stderr)
	}
	for _, args := range []string{"resize --size 300 --dry-run", "resize --size 300"} {
		code, stdout, stderr := call(append(strings.Fields(args+" --json"), flags...)...)
		if want := `"seeded":100,`; code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: got exit code %d, %s%s, want %s", args, code, stdout, stderr, want)
		}
	}
}
